"""Sessions from what other tools leave: logs of ranks, trainer states, event files, telemetry files."""
