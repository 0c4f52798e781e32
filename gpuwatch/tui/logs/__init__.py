"""Screen 3: logs."""
