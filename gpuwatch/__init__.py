"""gpuwatch: a terminal cockpit for GPU training clusters."""

__version__ = "0.2.0"
