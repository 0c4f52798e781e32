"""The connection to the conductor; when it ends, everything that was started ends."""
