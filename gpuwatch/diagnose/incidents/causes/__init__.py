"""The cause of a group of alerts: which belong together, and which brought the others about."""
