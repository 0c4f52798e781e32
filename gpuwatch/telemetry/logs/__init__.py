"""Log files of ranks: one a rank, rotated, with the facts of the rank at its start."""
