"""The scheduler of a live session, asked again and again: states of nodes, what jobs have left."""
