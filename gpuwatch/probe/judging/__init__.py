"""Judges a probe's measurements: pure functions over `results`."""
