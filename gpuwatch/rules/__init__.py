"""Loads rule packs and progress dialects."""
