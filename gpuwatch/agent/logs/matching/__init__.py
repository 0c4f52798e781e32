"""Matches rules with lines: literal prefilter, patterns, findings and their context."""
