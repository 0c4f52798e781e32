"""Tests of Slurm jobs as sources."""
