"""Jobs that ended before gpuwatch connected: which, how, and their numbers."""
