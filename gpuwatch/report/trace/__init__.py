"""`gpuwatch trace` and `gpuwatch memory`: profiler traces and memory reports as text and JSON."""
