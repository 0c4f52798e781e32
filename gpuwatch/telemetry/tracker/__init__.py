"""`TelemetryTracker`: what a training loop calls."""
