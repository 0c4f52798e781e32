"""GPU readings from the driver: NVML through ctypes, the GPUs of this rank, a sampling thread."""
