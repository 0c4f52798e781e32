"""Selects the rank, node or GPU that an incident names: by cause, by hang, or by absent ranks."""
