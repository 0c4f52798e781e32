"""The open logs of the logs screen, and the typed input that changes them."""
