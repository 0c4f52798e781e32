"""The data of the diagnosis: alert, condition, incident, failure classes, timing, text."""
