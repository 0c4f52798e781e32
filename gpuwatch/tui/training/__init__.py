"""Screen 6: the training of a job and its ranks."""
