"""The command `run`: the child process, its terminal and signals, and the monitor process beside it."""
