"""Reads saved outputs of tools (nvidia-smi, DCGM, Slurm, kubectl, env), which are found by content."""
