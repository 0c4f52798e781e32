"""Alerts from findings and events: deduplication, hysteresis, persistence, stable ids."""
