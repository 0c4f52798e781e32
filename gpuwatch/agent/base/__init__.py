"""Parts that all readers of the agent share: /proc, NVML codes, notices, ticks, requests."""
