"""Parts that every reader of the agent uses: /proc, NVML's codes, notices, ticks, requests, masks."""
