"""From alerts to incidents: what followed an error, what a silent rank did last, how a job ended."""
