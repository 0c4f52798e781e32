"""GPUs by NVML: the driver, one reader thread a GPU, tiers of values, processes, MIG, topology."""
