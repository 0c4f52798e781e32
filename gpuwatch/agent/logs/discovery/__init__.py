"""The search for logs of ended jobs, within bounds."""
