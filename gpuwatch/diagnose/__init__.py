"""What the facts mean: conditions, alerts and incidents; `alert_book` alone keeps a state."""
