"""Assigns log files to ranks and nodes."""
