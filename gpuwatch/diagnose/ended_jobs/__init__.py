"""Jobs that ended before gpuwatch connected: how they ended, by the logs that a search on the nodes found."""
