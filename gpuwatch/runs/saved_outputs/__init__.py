"""Saved outputs of tools (nvidia-smi, DCGM, Slurm, env): a reader for each, found by content."""
