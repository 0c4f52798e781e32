"""Processes, the ranks that they carry, who started them, and their settings."""
