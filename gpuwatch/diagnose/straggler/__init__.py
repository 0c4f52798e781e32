"""Ranks that are slower than the others of their job, and the reasons."""
