"""Numbers of training progress in lines: dialects, key-value pairs, which lines are read."""
