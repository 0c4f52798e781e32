"""Parts that all reports share: console, lines, masking, checkpoints, progress bars."""
