"""RUNS ON THE NODES (Python 3.8 and later): the ranks of a probe and their measurements.

No module here imports torch: `gpuwatch.probe.worker` imports it once per node and passes it in.
"""
