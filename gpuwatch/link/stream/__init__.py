"""Bytes to frames within bounds: carrier, limits, clock, inbox."""
