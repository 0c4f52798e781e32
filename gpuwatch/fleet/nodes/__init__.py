"""Nodes and GPUs with the ages of their values, their metrics and histories."""
