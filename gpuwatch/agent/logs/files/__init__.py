"""The log files themselves: how they are opened."""
