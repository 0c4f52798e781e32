"""Inference servers: rates and latencies from their counters, and alerts on errors and growing queues."""
