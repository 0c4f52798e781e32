"""Reads sentences that state a lasting loss in any words: predicate, subject and failure class."""
