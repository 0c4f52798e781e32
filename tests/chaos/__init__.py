"""Faults of nodes, of the way to them and of the cockpit's machine, and what holds during each of them."""
