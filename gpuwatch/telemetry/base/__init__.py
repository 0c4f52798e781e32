"""What every part of the library uses: the rank, log levels, files written whole, statistics."""
