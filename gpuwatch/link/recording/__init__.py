"""Recordings: received frames in an SQLite file, and the link that replays them."""
