"""Measurements of a rank: distributions of numbers, timers on the host and on the GPU."""
