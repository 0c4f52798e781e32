"""What the screens are made of: Line-API widgets that paint straight from the fleet."""
