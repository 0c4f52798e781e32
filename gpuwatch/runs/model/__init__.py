"""Rules for lines that show where ranks run, and the record of matches in parts of a file."""
