"""Metrics of a tracker to TensorBoard and W&B, through their own libraries, imported when they are used."""
