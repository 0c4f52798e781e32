"""Memory of ranks by torch's allocator: snapshots, `memory_summary()`, and the lines of trainers in logs."""
