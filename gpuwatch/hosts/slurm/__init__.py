"""Slurm jobs as sources: what Slurm's commands report, and the plan of a job."""
