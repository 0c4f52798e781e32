"""Incidents of earlier sessions, by node and GPU."""
