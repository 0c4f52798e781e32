"""Slurm jobs as sources of nodes: parses the output of Slurm's commands, and makes the plan of a job."""
