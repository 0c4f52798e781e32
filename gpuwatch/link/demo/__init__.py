"""A simulated training cluster with a scripted incident, delivered as ordinary frames."""
