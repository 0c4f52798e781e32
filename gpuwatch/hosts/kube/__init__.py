"""Kubernetes pods as sources: what kubectl reports, and the plan of a job's pods."""
