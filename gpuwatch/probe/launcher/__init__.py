"""RUNS ON THE NODES: the launcher of the ranks (standard library only, Python 3.6 and later)."""
