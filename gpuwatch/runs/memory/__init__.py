"""GPU memory of ranks from torch's allocator: snapshots, `memory_summary()`, and trainers' log lines."""
