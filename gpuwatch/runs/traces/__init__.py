"""Profiler traces: torch.profiler's Chrome traces and Nsight Systems exports, read and measured."""
