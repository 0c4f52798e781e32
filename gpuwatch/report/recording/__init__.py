"""Exports of recordings: a redacted copy, and Parquet tables."""
