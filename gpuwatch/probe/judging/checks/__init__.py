"""Checks other than of links: alerts, baseline, collectives, GPUs, expected rates, missing ranks."""
