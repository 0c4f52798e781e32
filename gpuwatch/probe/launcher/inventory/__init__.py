"""The inventory of a node: interpreters, GPUs, networks, ports, counters."""
