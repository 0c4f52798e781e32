"""The screen of profiles."""
