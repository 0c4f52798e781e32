"""What is left where a node has no Python 3.6: `nvidia-smi` and /proc, read through /bin/sh."""
