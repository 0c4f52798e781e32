"""Benchmarks of a live cluster: agents, links, the cockpit over them."""
