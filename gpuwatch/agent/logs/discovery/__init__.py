"""Finds the logs of jobs that ended before the agent came, to which no descriptor leads any more."""
