"""Searches, bookmarks, jumps to errors and ranks."""
