"""Nodes and GPUs with the ages of their values, metrics and histories."""
