"""Training sessions (`docs/sessions.md`): found, read, completed from their logs."""
