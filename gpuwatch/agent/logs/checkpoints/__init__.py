"""Checkpoints that log lines name, and whether their files are complete."""
