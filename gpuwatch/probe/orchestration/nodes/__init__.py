"""The nodes of a probe: what is sent to them, the connections, a simulated node."""
