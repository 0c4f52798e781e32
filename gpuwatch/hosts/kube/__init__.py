"""Kubernetes pods as sources: what kubectl reports, and the plan of the pods of a job."""
