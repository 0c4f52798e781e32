"""Reads the GPU memory of ranks from torch's snapshots, `memory_summary()`, and trainers' log lines."""
