"""The checklist of `gpuwatch check`."""
