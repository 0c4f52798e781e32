"""Queries the scheduler periodically during a live session: node states, ended jobs, failure events."""
