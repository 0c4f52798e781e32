"""Recordings: frames as they came, in a SQLite file, and the link that replays them."""
