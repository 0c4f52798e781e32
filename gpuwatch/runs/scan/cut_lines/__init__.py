"""Joining of lines that a container runtime or the words of a user cut."""
