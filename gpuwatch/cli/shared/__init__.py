"""Shared by commands: source and screen options, exit codes, output streams, signals."""
