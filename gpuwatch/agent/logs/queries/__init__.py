"""Answers requests: pages, searches, kernel lines."""
