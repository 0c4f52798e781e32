"""The data behind the log panes: sources, buffers, merging, folding."""
