"""Checks of GPUs and nodes: thresholds, states and comparison with peers."""
