"""Runs a probe: the nodes, the plan, and the stages from the preflight to the verdict."""
