"""The tracker in whole scripts."""
