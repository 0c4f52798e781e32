"""RUNS ON THE NODES (Python 3.8 and later): what the worker and its ranks are made of.

Nothing here imports torch: it is handed in by `gpuwatch.probe.worker`, which imports it once a node.
"""
