"""Outputs without a screen: text, JSON, CSV, dmon."""
