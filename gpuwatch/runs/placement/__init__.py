"""Which rank and node a log file is of."""
