"""Profiler traces (torch.profiler's Chrome traces, Nsight Systems exports) and NCCL dumps.

Readers and measures.
"""
