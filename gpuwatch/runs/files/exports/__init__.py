"""Exports of schedulers, clouds and log services: status documents and tables of log lines, as log lines."""
