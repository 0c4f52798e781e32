"""Screen 2: one node and one GPU."""
