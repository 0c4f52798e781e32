"""Log text and settings of an incident or a job, fetched from the nodes for a bundle."""
