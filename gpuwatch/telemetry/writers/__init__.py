"""Writes a tracker's metrics to TensorBoard and W&B, through their own libraries, imported on use."""
