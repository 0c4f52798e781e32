"""Alerts before they are grouped: what findings and events make, and what the operator marked."""
