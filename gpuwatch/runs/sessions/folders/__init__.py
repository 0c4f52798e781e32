"""Reads session folders: the summary, its parts and the three logs."""
