"""Rule packs from YAML: the built-in ones beside this file, and those of the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
import yaml

from gpuwatch.rules.rule import Rule

BUILT_IN = Path(__file__).parent
LISTS = ("match", "literals", "unless", "do", "examples", "links", "not")
"""Keys of a rule that may be one text or a list of them."""


@dataclass(frozen=True)
class Packs:
    """The rules in force."""

    rules: tuple[Rule, ...]
    by_id: dict[str, Rule]
    packs: dict[str, str]
    """Rule id -> the file it is from."""


def load_packs(extra: Sequence[Path] = ()) -> Packs:
    """The built-in packs and the ones named; a rule of one of those replaces a built-in one with its id.

    Raises:
        RulesError: with every problem of every pack.
    """
    built_in, packs = _built_in()
    by_id, packs = dict(built_in), dict(packs)
    if extra:
        from gpuwatch.rules.parse import read_packs  # noqa: PLC0415 - the first screen waits for no checks

        mine, files = read_packs(extra)
        by_id.update(mine)
        packs.update(files)
    return Packs(tuple(by_id.values()), by_id, packs)


@cache
def _built_in() -> tuple[dict[str, Rule], dict[str, str]]:
    """As `read_packs`, ten times as fast: the packs that come with us were checked by our tests."""
    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    by_id: dict[str, Rule] = {}
    packs: dict[str, str] = {}
    for file in sorted(BUILT_IN.glob("*.yaml")):
        pack: Any = yaml.load(file.read_bytes(), Loader=loader)  # noqa: S506 - it makes texts, lists, mappings
        for entry in pack["rules"] if isinstance(pack, dict) else pack:
            rule = _checked_before(entry)
            by_id[rule.id] = rule
            packs[rule.id] = str(file)
    return by_id, packs


def _checked_before(entry: dict[str, Any]) -> Rule:
    listed: dict[str, Any] = {
        name: [value] for name, value in entry.items() if name in LISTS and isinstance(value, str)
    }
    same = entry.get("recovery", {}).get("same")
    if isinstance(same, str):
        listed["recovery"] = {**entry["recovery"], "same": [same]}
    return msgspec.convert({**entry, **listed, "explain": entry["explain"].strip()}, Rule, strict=False)
