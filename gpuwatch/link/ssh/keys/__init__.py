"""Private keys: files, ssh-agents, and the order in which they are tried."""
