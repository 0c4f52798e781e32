"""Turns bytes into lines: splitting, prefixes, timestamps, levels, ranks."""
