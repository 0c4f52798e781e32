"""Verdicts and numbers in words, and the symbols of grades."""
