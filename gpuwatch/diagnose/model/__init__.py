"""Data types of the diagnosis: alert, condition, incident, failure classes, timing, text."""
