"""Stacks, flight recorders and hang verdicts as text and JSON."""
