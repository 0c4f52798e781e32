"""Writes the session folder of a run: its five files, the parts of other ranks, one merged summary."""
