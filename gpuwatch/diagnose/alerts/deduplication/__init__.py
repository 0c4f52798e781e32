"""Merging of alerts that report one event, and error lines that no rule knows."""
