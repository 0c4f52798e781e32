"""The command line: `main` parses, then imports only the requested command."""
