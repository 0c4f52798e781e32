"""Incidents as text and JSON."""
