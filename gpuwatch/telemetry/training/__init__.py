"""What a training loop reports: steps, gradients, model, data, and their problems."""
