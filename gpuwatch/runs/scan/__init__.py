"""Scans the log files of an ended job with the rules, on all cores."""
