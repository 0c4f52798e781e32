"""Ranks whose process is gone while their siblings live."""
