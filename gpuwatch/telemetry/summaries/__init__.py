"""Summaries of a rank and across ranks: as data, as text, as files."""
