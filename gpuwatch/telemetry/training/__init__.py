"""Checks and sums of what a training loop reports: steps, gradients, model, data."""
