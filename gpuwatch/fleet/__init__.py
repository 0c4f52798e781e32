"""What is known now: nodes, GPUs, ranks and their histories; no threads, no I/O."""
