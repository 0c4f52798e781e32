"""Log files on disk: which, packed how, and lines around a place."""
