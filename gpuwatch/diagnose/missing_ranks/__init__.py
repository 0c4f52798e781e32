"""Ranks whose process is missing while sibling ranks live."""
