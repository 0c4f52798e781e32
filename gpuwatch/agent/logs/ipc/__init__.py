"""The link between the agent and its log reader: process, pipes, messages, last activity."""
