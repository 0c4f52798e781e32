"""Summaries as text and files, and across ranks."""
