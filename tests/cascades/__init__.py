"""Whole jobs that fail, given as the text of their logs: the incident must name the right rank and class."""
