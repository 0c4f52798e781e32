"""The link benchmark: measures the links between the ranks of a job, and finds why one is slow."""
