"""Log folders with labels: what `scan` has to find in them, and where it has to be silent."""
