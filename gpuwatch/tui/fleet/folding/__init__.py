"""A large fleet folded into groups of nodes: by a label such as the rack, by group, by name."""
