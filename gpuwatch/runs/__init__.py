"""Training runs after the fact: finds and reads their logs, and joins them to ranks and nodes."""
