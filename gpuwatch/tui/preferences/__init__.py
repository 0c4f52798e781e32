"""The user's settings file: its allowed keys, how it is read and changed."""
