"""Queries the ranks of a job that hangs: stacks, RAS, dumps, upload of py-spy."""
