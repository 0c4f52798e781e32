"""Credibility of sources: log lines about other ranks, nodes and the kernel."""
