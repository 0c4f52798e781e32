"""Kubernetes pods as sources of nodes: parses what kubectl reports, and makes the plan of a job's pods."""
