"""The fallback without Python 3.6 on the node: `nvidia-smi` and /proc, read through /bin/sh."""
