"""The stages of a probe, from the preflight to the pairs."""
