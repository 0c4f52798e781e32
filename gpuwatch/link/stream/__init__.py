"""Bytes to frames, with limits: carrier, limits, clock, inbox."""
