"""Faults of many nodes or of the way to them: the others stay fresh, and nothing is left."""
