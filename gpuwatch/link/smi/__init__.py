"""The fallback for nodes without Python 3.6: `nvidia-smi` and /proc, read through /bin/sh."""
