"""Losses, gradients and step times of running jobs."""
