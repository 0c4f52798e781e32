"""The node, rank and GPU of a finding: by its file, the host that it states, the node that it names."""
