"""The verdict on a probe's measurements: pure functions over `results`."""
