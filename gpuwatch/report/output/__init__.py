"""What all reports use: console, lines, masks, checkpoints."""
