"""JSON records that are too long to be read as one line: parts of them as records of their own."""
