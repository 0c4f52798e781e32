"""Rules for lines that show where ranks run, and the record of a file's matches while it is read in parts."""
