"""What is open on the log screen, and the input that changes it."""
