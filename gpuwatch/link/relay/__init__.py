"""The local socket between the process with the links and its viewers, and the messages on it."""
