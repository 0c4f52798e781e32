"""The command `run`: the child, its terminal and signals; and the process that monitors it meanwhile."""
