"""Texts of verdicts and numbers, and the symbols of grades."""
