"""Screen 2: one node, and the screen of one GPU."""
