"""Periodic queries to the scheduler of a live session: node states, and what jobs left behind."""
