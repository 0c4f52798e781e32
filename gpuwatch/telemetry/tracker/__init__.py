"""`TelemetryTracker`: the interface for a training loop."""
