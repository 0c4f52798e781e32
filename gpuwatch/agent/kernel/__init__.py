"""The kernel log, and the Xids of the NVIDIA driver in it."""
