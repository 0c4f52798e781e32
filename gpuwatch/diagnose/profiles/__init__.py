"""Profiles of running ranks: call trees, time by function, and differences between two ranks."""
