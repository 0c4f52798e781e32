"""The bounded search for logs of ended jobs."""
