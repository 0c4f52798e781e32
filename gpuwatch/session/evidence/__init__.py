"""Fetches log text, artifacts and settings of an incident or job from the nodes, for an evidence bundle."""
