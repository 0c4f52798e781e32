"""Outcomes that need the lines around an error, not the steps alone."""
