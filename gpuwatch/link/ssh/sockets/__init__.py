"""The byte streams below an ssh connection."""
