"""Turns a node's bytes into frames, with limits: carrier, limits, clock comparison, inbox."""
