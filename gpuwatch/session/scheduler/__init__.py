"""The scheduler of a live session, asked again and again: states of nodes, what its jobs have left."""
