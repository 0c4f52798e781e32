"""The problem list and the panes beside the node table."""
