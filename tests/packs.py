"""The built-in rules as the agent takes them, compiled once in each test process."""

from __future__ import annotations

from functools import cache

from gpuwatch.agent.logs.ruleset import RuleSet
from gpuwatch.rules.compile import compiled
from gpuwatch.rules.load import load_packs


@cache
def built_in_rules() -> RuleSet:
    """All rules without the progress dialects. Tests share it: one that suspends a rule makes its own."""
    return RuleSet(compiled(load_packs().rules))
