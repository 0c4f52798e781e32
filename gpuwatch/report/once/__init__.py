"""Parts of what `gpuwatch once` says."""
