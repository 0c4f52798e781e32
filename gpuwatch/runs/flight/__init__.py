"""Finds and parses dumps of torch's flight recorder; a pickle in them is never executed."""
