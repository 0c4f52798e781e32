"""Distributions and timers."""
