"""Reads the GPUs of this rank from the driver: NVML through ctypes, and a sampling thread."""
