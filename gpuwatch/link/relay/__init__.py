"""One session's stream for several viewers: messages, and the local socket."""
