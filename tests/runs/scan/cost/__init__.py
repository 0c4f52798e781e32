"""What a scan costs, counted."""
