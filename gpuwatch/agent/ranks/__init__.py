"""The rank of a process by its environment, and of a log file by its path."""
