"""Lines of log files as the panes need them: sources, buffers, merging, folding."""
