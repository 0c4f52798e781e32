"""Masks of secrets in command lines and log text, also where they are encoded."""
