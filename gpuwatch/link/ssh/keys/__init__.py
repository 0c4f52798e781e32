"""Private keys: files, ssh-agents, and which key is tried where."""
