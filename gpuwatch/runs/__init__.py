"""A training run after the fact: the logs that it left are found, read, and joined to ranks and nodes."""
