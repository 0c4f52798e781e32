"""The launcher of a probe, run for real on this machine."""
