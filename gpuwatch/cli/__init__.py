"""The command line: `main` parses the arguments, then imports only the module of the requested command."""
