"""The log reader: a separate process that follows files, matches rules and answers queries."""
