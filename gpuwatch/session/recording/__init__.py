"""Alerts and incidents in a recording: how they are written, and read for the replay."""
