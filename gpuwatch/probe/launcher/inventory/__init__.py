"""Takes the inventory of a node: interpreters, GPUs, networks, ports, counters."""
