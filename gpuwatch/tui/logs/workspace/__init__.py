"""The open logs of the log screen, and the input that changes them."""
