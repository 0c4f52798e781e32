"""Verdicts from dumps of torch's flight recorder."""
