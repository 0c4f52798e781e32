"""Screen 4: incidents and alerts."""
