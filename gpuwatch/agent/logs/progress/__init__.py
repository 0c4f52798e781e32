"""Reads training metrics from lines: dialects, key-value pairs, choice of lines."""
