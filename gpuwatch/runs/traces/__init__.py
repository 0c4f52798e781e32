"""Profiler traces: torch.profiler's Chrome traces, Nsight Systems exports, NCCL's dumps; measured."""
