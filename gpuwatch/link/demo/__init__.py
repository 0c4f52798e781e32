"""A simulated training cluster and its scripted incident, delivered as ordinary frames."""
