"""Determines how a job ended, from the steps that its ranks logged."""
