"""What the next log reader leaves out after one has hung."""
