"""Parts that the whole library shares: the rank, log levels, atomic file writes, masks, settings."""
