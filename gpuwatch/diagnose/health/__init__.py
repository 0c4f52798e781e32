"""Conditions of GPUs and nodes from values, and comparison with peers."""
