"""Incidents from alerts: groups, root cause, suspects, headline, timeline, playbook."""
