"""The person's settings file: what may stand in it, how it is read and changed."""
