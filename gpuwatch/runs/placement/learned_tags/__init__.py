"""Ranks of tags in line heads, learned from the lines of a whole folder."""
