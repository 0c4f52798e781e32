"""Scans all log files on all cores."""
