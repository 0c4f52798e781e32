"""Checks of alerts, baseline, collectives, GPUs, expected rates, missing ranks; not of links."""
