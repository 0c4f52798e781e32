"""Rules made ready for the agent: literals, checks, the cache of compiled packs."""
