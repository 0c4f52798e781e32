"""The scan of all files over all cores."""
