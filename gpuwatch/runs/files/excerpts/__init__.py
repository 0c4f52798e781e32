"""Parts of a log file: lines around an offset, samples, line numbers, bytes at any offset."""
