"""What a person can do about a node, GPU, rank or job: commands, and what each of them hits."""
