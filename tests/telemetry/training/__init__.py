"""Steps, gradients, models."""
