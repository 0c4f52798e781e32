"""Searches, bookmarks, jumps to errors, and the selection of an incident's or rank's logs."""
