"""What several parts of the agent use."""
