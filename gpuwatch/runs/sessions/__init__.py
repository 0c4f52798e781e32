"""Training sessions (`docs/sessions.md`): finds and reads them, and completes them from their logs."""
