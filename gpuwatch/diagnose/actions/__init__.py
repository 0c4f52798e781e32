"""Actions on a node, GPU, rank or job: the commands, and what each of them affects."""
