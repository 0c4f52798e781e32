"""Commands about configuration: `hosts` and `rules`."""
