"""Searches for logs of ended jobs, within limits."""
