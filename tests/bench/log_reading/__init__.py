"""Benchmarks of reading logs, and the logs that they read."""
