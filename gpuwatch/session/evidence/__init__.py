"""Log text and settings of an incident or job, fetched from the nodes for an evidence bundle."""
