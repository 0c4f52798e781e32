"""Plans which ranks run where, over which addresses, and in which rounds. Pure."""
