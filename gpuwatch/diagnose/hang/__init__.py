"""A job that stopped without a word: its logs are silent while its processes live."""
