"""What a node has: interpreters, GPUs, networks, ports, counters."""
