"""Checks and sums over the values that a training loop reports: steps, gradients, model, data."""
