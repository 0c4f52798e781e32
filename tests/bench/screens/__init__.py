"""Benchmarks of the start, keys and painted frames."""
