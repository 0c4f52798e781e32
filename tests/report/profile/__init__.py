"""Profiles as reports."""
