"""Profiles of running ranks: stacks as a tree, where the time went, and which frames differ between two."""
