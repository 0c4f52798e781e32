"""Processes, the ranks that they are, their launchers and settings."""
