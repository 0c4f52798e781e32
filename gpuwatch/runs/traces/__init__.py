"""Reads and measures profiler traces (torch.profiler, Nsight Systems exports) and NCCL's dumps."""
