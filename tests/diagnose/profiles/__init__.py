"""Profiles as data."""
