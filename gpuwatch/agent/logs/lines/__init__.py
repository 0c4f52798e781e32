"""What one log line says: who writes it and whom it is about."""
