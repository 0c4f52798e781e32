"""The checklist: every question that is asked before a job starts, or when it does not do what it should."""
