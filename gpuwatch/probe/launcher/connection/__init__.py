"""The line to the conductor, and the end of everything with it."""
