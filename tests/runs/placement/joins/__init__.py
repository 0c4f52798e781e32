"""Joins of facts from any file."""
