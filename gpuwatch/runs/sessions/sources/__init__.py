"""Reads sessions from other tools' files: rank logs, trainer states, event files, telemetry files."""
