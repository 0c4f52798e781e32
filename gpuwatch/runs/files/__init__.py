"""Log files on disk: discovery, decompression, and lines around an offset."""
