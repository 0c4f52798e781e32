"""Scans one file: lines to findings and progress, with counting of repeats."""
