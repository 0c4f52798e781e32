"""A training run after the fact: its logs are found, read, and joined to ranks and nodes."""
