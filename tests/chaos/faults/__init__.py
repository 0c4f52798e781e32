"""The faults, and the table of them."""
