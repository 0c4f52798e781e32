"""Screen 1: heat map, node table, active problems."""
