"""The user's settings file: what it may contain, how it is read and changed."""
