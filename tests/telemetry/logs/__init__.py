"""Log files of ranks."""
