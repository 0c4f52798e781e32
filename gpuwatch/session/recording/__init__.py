"""Writes alerts and incidents into a recording, and reads them for the replay."""
