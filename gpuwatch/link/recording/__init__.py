"""Recordings: writes the received frames into an SQLite file, reads them, and replays them as a link."""
