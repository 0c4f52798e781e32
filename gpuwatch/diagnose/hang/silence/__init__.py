"""Jobs that log nothing, and no step: one look for reports, alerts over time."""
