"""Sets up the log files of ranks: one per rank, rotated, with a header about the rank."""
