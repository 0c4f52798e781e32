"""The byte streams under an ssh connection."""
