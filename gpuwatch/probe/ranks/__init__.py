"""RUNS ON THE NODES (Python 3.8 and later): the ranks of a probe and their measurements.

Nothing here imports torch: it is handed in by `gpuwatch.probe.worker`, which imports it once a node.
"""
