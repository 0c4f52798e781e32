"""Shared by all parts of the library: the rank, log levels, atomic file writes, statistics."""
