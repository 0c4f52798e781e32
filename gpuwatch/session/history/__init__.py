"""Stores incidents across sessions, to count how often a node or GPU had the same kind before."""
