"""Rules on lines: the literal prefilter, the patterns, findings and their context."""
