"""Searches for logs, within limits: globs, Slurm, and folders in which ended jobs left theirs."""
