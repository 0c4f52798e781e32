"""gpuwatch: a terminal monitor for GPU training clusters."""

__version__ = "0.2.0"
