"""The nodes of a probe: what is sent to them, the connections, and simulated nodes."""
