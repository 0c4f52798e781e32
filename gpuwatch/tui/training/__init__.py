"""Screen 6: training."""
