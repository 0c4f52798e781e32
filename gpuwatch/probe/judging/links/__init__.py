"""Grades of links, and which part explains the bad ones."""
