"""Servers that tests start: sshd, Slurm, NCCL RAS, a browser."""
