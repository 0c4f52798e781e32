"""What followed an error, and the severity that follows from it."""
