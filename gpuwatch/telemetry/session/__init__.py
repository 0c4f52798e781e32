"""The session folder of a run: its five files, the parts of other ranks, and their merge into one summary."""
