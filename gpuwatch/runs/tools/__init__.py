"""Outputs of NVIDIA's tools that people save beside the logs: one reader for each, found by content."""
