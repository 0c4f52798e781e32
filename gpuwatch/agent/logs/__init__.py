"""The log reader: a process of its own that follows files, matches rules and answers queries."""
