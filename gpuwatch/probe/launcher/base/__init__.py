"""The protocol's lines, and the end of everything with its parent."""
