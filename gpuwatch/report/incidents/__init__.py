"""Incidents and scans as text."""
