"""Recordings for others: a redacted copy, and Parquet tables."""
