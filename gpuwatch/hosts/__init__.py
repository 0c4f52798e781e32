"""Which nodes to watch, and how each is reached: the hosts file and the other ways to name nodes."""
