"""What commands share: options for nodes, exit codes, output streams, signals."""
