"""The command line: `main` parses, then imports the one command that was asked for."""
