"""The built-in rules as the agent takes them, compiled once in a run of the tests.

A module asks for them in its tests, not where it is imported: every test process imports every module.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.rules.compiling.keep import compiled_or_kept
from gpuwatch.rules.load import load_packs
from gpuwatch.rules.model.checkpoint_lines import CHECKPOINT_RULES
from gpuwatch.rules.model.dialect import Dialect
from gpuwatch.rules.model.rule import Rule
from gpuwatch.runs.model.clues import CLUES
from gpuwatch.runs.scan.result import Engine
from gpuwatch.runs.scan.scan import Begin


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


def compile_once(cache_folder: Path) -> None:
    """Compile the sets that most tests need in one of the test processes, while the others wait."""
    packs = load_packs()
    with (cache_folder / "compiling").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for more in ((), CLUES, CHECKPOINT_RULES):
            compiled_or_kept([*packs.all, *more])
        compiled_or_kept([*packs.rules, *CLUES])


def share_begins(patch: pytest.MonkeyPatch) -> None:
    """Let all scans of this process with the same rules share one prepared set: 0.2 s of CPU for each scan.

    A new scan finds no rule suspended, as in a process of its own. Fewer rules than the built-in ones are
    those of one test: nothing of them is kept, here or in the cache folder.
    """
    made: dict[tuple[Engine, tuple[int, ...]], tuple[tuple[Rule | Dialect, ...], Begin]] = {}
    of = Begin.of

    def shared(rules: Iterable[Rule | Dialect], engine: Engine) -> Begin:
        given = tuple(rules)
        if len(given) < len(load_packs().rules):
            return Begin(compiled([*given, *CLUES]), engine)
        key = (engine, tuple(map(id, given)))
        if key not in made:
            made[key] = given, of(given, engine)
        begin = made[key][1]
        begin.ruleset.suspended.clear()
        begin.ruleset.off_everywhere.clear()
        begin.ruleset._off.clear()
        begin.ruleset.entered = begin.ruleset.left = None
        return begin

    patch.setattr(Begin, "of", shared)
