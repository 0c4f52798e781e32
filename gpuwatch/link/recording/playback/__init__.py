"""The player of a recording, what a seek applies, and the link of a recorded node."""
