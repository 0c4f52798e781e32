"""Which job and which rank a process, file or line is of, and where each rank runs."""
