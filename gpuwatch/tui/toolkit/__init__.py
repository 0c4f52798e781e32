"""What every screen uses and no feature owns."""
