"""Sentences that state a lasting loss in any words: their predicates, what they are about, and the class."""
