"""The test processes: what each one sees, and the order in which they get the files."""
