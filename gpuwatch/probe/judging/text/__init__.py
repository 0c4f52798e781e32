"""Verdicts and numbers as text, and the symbols of grades."""
