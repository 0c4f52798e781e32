"""Files, masks and ranks of the library."""
