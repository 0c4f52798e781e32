"""Determines which rank and node wrote each log file, from paths and lines."""
