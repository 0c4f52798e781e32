"""Followed files: selection, reading position, rotation, pages and tails."""
