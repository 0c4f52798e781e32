"""One session's stream for several viewers: messages, and the socket between processes of one machine."""
