"""How a probe is run: the nodes, the plan, and the stages from the preflight to the verdict."""
