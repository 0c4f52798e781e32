"""Dumps of torch's flight recorder, read safely."""
