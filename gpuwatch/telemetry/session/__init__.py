"""The session folder of a run: its five files, what other ranks add, and how both become one summary."""
