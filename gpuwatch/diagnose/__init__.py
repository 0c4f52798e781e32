"""What the facts mean: conditions, alerts and incidents; `alert_book` and its watches keep state."""
