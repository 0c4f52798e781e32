"""Matches rules on lines: literal prefilter, patterns, findings and their context."""
