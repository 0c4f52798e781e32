"""The data of a training session: its summary, its curves, and what is missing of it."""
