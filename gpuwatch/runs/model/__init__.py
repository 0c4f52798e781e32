"""Rules for lines that show where ranks run, and the record of the matches in the parts of a file."""
