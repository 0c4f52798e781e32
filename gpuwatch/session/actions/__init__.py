"""Runs the actions that the operator confirmed, and writes their results into the incident's notes."""
