"""Reads what the last lines of a log state: a good end, ordinary work, or a failure in any words."""
