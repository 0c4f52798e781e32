"""The real agent on real NVML; skipped on a machine without an NVIDIA GPU."""
