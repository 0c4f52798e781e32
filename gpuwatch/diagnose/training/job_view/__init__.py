"""A job's training as data: the content of screen 6."""
