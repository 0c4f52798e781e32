"""Slurm's jobs as sources: what its commands report, and the plan of a job."""
