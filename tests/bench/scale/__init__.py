"""What many nodes cost: simulated ssh nodes in one process, gpuwatch over them, bare readers beside it."""
