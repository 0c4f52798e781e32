"""Alerts for how a job ended: before its last step, without an error line, during an operation."""
