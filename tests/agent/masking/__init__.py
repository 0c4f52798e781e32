"""Secrets in command lines and log text."""
