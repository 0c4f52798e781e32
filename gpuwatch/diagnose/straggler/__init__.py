"""Which rank of a job makes the others wait, from what its GPU, its process and its own log show."""
