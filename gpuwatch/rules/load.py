"""Loads rule packs from YAML: the built-in ones in `packs`, and those of the user."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.agent.logs.progress.key_values import canonical
from gpuwatch.agent.logs.progress.metrics_table import COMMON
from gpuwatch.own_folders import config_folder
from gpuwatch.rules.built_in import built_in, built_in_rules
from gpuwatch.rules.model.dialect import Dialect
from gpuwatch.rules.model.errors import RulesError
from gpuwatch.rules.model.failure_class import FailureClass
from gpuwatch.rules.model.rule import Rule
from gpuwatch.whole_file import read_own

MAX_PACK_BYTES = 16 << 20


class Packs(Struct, frozen=True):
    """All loaded rules and dialects, by id, with the file of each."""

    rules: tuple[Rule, ...]
    by_id: dict[str, Rule]
    packs: dict[str, str]
    """Rule id -> its file."""
    dialects: tuple[Dialect, ...] = ()
    """Dialects of progress lines, in the order in which a line is tried: the user's first."""

    @property
    def all(self) -> tuple[Rule | Dialect, ...]:
        """Return the rules and dialects together; all of them are sent to an agent."""
        return (*self.rules, *self.dialects)

    @property
    def dialect_by_id(self) -> dict[str, Dialect]:
        """Return dialect id -> dialect."""
        return {each.id: each for each in self.dialects}

    @property
    def stated_classes(self) -> dict[str, FailureClass]:
        """Return rule id -> failure class, without those of built-in rules."""
        known, nothing = built_in_rules(), FailureClass()
        return {
            name: rule.failure_class
            for name, rule in self.by_id.items()
            if rule is not known.get(name)
            and rule.failure_class not in (nothing, known[name].failure_class if name in known else nothing)
        }

    @property
    def column_words(self) -> dict[str, str]:
        """Return column name in a table of metrics -> the quantity in that column."""
        common = next((each.words for each in self.dialects if each.id == COMMON), {})
        return {canonical(word): quantity for word, quantity in common.items()}


def load_packs(extra: Sequence[Path] = ()) -> Packs:
    """Load the built-in packs and the given ones, whose rules replace built-in ones with the same id.

    The dialects of the given packs come first.

    Raises:
        RulesError: With every problem of every pack.
    """
    known = built_in()
    entries: dict[str, Rule | Dialect] = {each.id: each for each in known.rules}
    entries.update((each.id, each) for each in known.dialects)
    packs = dict(known.packs)
    mine: dict[str, Rule | Dialect] = {}
    if extra:
        from gpuwatch.rules.parsing.parse import read_packs  # noqa: PLC0415 - the first screen waits for no checks

        mine, files = read_packs(extra, frozenset(entries))
        mine = {name: with_class(each) if isinstance(each, Rule) else each for name, each in mine.items()}
        entries.update(mine)
        packs.update(files)
    by_id = {name: entry for name, entry in entries.items() if isinstance(entry, Rule)}
    dialects = [entry for entry in entries.values() if isinstance(entry, Dialect)]
    dialects.sort(key=lambda dialect: dialect.id not in mine)
    return Packs(tuple(by_id.values()), by_id, packs, tuple(dialects))


def with_class(rule: Rule) -> Rule:
    """Return a user's rule with the kinds of its built-in families.

    One with the id of a built-in rule that states nothing about its class has the class of that rule.
    """
    replaced = built_in_rules().get(rule.id)
    if replaced is not None and rule.failure_class == FailureClass():
        rule = replace(rule, kinds=replaced.kinds, end_weight=replaced.end_weight, explains=replaced.explains)
    return rule.with_families(built_in().families)


def own_packs() -> list[Path]:
    """Return the packs in the user's settings folder, by name.

    Raises:
        RulesError: One of them cannot be read, or another user may have written it.
    """
    packs = sorted((config_folder() / "rules").glob("*.yaml"))
    problems = [f"{pack}: {why}" for pack in packs if (why := _problem(pack))]
    if problems:
        raise RulesError(problems)
    return packs


def _problem(pack: Path) -> str | None:
    """Return why a pack file cannot be read; None: it can be read."""
    try:
        read_own(pack, MAX_PACK_BYTES)
    except OSError as error:
        return error.strerror or str(error)
    return None
