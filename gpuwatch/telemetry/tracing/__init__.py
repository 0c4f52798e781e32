"""Measures where time is spent: traces of code sections, communication, torch's profiler."""
