"""How a probe is carried out: the nodes, the plan, and the stages from the first look to the last number."""
