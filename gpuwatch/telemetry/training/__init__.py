"""What a training loop tells: steps, gradients, model, data, and what is wrong with them."""
