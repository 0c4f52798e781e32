"""Checks besides the links: alerts, baseline, expected rates, missing ranks."""
