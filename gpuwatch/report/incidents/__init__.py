"""Incidents as text and JSON, and the incident history."""
