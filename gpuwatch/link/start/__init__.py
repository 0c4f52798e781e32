"""Starts the agent on a node: loader command, bundle of sources, log settings, reasons of failure."""
