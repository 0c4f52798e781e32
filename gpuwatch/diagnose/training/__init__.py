"""What the numbers of a training run say: losses, gradients, and how fast it goes."""
