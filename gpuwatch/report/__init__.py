"""Outputs without screens: text, JSON, CSV, dmon, Prometheus metrics, evidence bundles, web pages."""
