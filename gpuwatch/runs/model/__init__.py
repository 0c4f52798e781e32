"""Lines that show where ranks run, and matches as parts of a file record them."""
