"""A fake NVML library in C, for tests and benchmarks on machines without a GPU."""
