"""Verdicts on measured traces and memory reports: flags with evidence and next steps."""
