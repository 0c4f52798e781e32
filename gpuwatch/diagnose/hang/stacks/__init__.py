"""Verdicts from the stacks of all ranks."""
