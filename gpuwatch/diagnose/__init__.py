"""What the facts mean: pure functions over the fleet and a clock."""
