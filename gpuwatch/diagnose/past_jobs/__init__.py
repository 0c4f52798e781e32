"""Jobs that ended before gpuwatch connected: how they ended, and their metrics."""
