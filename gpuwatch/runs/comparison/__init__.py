"""Compares sessions: groups, speed-up, scaling, and whether several GPUs train together. Pure."""
