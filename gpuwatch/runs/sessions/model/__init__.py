"""The types of a training session: summary, curves, problems."""
