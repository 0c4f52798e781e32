"""The results of a probe as text, tables, matrix, JSON and CSV."""
