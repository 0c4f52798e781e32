"""Prepares rules for the agent: literals, checks, the cache of compiled packs."""
