"""Alerts and incidents in a recording."""
