"""Outputs without screens: text, JSON, CSV, dmon, Prometheus metrics, bundles."""
