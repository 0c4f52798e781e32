"""Grades links, and finds the component that explains the bad ones."""
