"""The built-in rules as the agent takes them, compiled once in a run of the tests.

A module asks for them in its tests, not where it is imported: every test process imports every module.
"""

from __future__ import annotations

from functools import cache

from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.rules.compiling.keep import compiled_or_kept
from gpuwatch.rules.load import load_packs
from gpuwatch.rules.model.dialect import Dialect
from gpuwatch.rules.model.rule import Rule


def patterns_of(entry: Rule | Dialect) -> tuple[str, ...]:
    """What is searched for in every line that a literal of the rule or dialect stands in."""
    general = entry.general if isinstance(entry, Rule) else None
    more = () if general is None else (*general.match, *general.unless)
    return (*entry.match, *entry.unless, *more)


@cache
def built_in_rules() -> RuleSet:
    """All rules without the progress dialects. Tests share it: one that suspends a rule makes its own."""
    return RuleSet(compiled_or_kept(load_packs().rules))


@cache
def rules_and_dialects() -> RuleSet:
    """All of the built-in packs, shared in the same way."""
    return RuleSet(compiled_or_kept(load_packs().all))


@cache
def dialects() -> RuleSet:
    """The progress dialects alone, shared in the same way."""
    return RuleSet(compiled_or_kept(load_packs().dialects))
