"""Shared by commands: options for nodes, exit codes, output streams, signals."""
