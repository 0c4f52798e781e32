"""The nodes of a probe: what is shipped, the lines to them, a simulated one."""
