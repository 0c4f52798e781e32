"""Who may be believed: log lines about other ranks, nodes and the kernel."""
