"""Reads processes, which ranks they are, their launchers and settings."""
