"""Finds, classifies and reads log files on disk, in any packing; reads lines around an offset."""
