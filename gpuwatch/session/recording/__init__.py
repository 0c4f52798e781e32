"""The alerts and incidents in a recording."""
