"""The current state of all nodes, GPUs and ranks, with their histories; no threads, no I/O."""
