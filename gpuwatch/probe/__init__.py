"""The link benchmark: what the ranks of a job would get from each other, and why it is little."""
