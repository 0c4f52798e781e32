"""Stacks, flight recorders and their verdicts as text."""
