"""Checks other than links: alerts, baseline, expected rates, missing ranks."""
