"""The host readers of the agent: small trees where the facts are chosen, this machine where they are real."""
