"""One file a command: parse, then import the one thing that was asked for."""
