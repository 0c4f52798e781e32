"""Determines what happened after an error (recovery, restart, end), and the resulting severity."""
