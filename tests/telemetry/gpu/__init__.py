"""NVML through ctypes, on the fake driver."""
