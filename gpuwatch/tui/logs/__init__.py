"""Screen 3: the logs of nodes and ranks."""
