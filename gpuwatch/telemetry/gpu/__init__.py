"""GPUs as the driver sees them: NVML through ctypes, the GPUs of this rank, a thread that reads them."""
