"""GPUs through NVML: driver, one reader thread per GPU, value tiers, processes, MIG, topology."""
