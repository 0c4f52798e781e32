"""Answers to requests: pages, searches, kernel lines."""
