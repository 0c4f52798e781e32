"""The packs under foreign ids judge as the built-in ones do: kinds decide, no id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuwatch.report.scan.report import judged, scan_facts
from gpuwatch.rules.load import Packs
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.scan.scan import Begin, scan
from tests.corpus.score import CORPUS, NOW, packs, scanned

FOREIGN = "site."
"""The beginning of each foreign id: `site.oom.cuda` is of no family of the built-in packs."""
STORIES = (
    "elastic-attempts-used-up",
    "end-line-below-a-gradient-check",
    "gradient-nan-to-the-end",
    "lustre-evicts-ox4-rank-6-first",
    "nan-begins-on-rank-4-of-6",
    "ray-memory-monitor-rank-1",
    "segfault-rank3",
    "watchdog-then-sigabrt",
)
"""Failures that have rules of most kinds, of those that ids once decided."""
KEYS = (
    "class",
    "rank",
    "node",
    "gpu",
    "severity",
    "role",
    "confidence",
    "because",
    "followers",
    "count",
    "actions",
)
"""The keys that are equal; texts name an Xid by the catalogue only under the catalogue's ids."""


def foreign() -> Packs:
    """Every rule with its class under a foreign id.

    The rules of the old ids stay for what gpuwatch reports by itself, such as the end of a rank. Effects that
    name a rule or family mean both.
    """
    known = packs()

    def effects(stated: Iterable[str]) -> Iterator[str]:
        for each in stated:
            yield each
            if each in known.by_id or each.endswith(".*"):
                yield FOREIGN + each

    own = [
        replace(each, id=FOREIGN + each.id, explains=tuple(effects(each.explains))) for each in known.rules
    ]
    left = [
        replace(
            each, explains=tuple(effects(each.explains)), match=("no line has this",), literals=(),
            general=None, raised=None, after=None, above=None, recovery=None, fallback=False,
        )
        for each in known.rules
    ]  # fmt: skip
    rules = (*own, *left)
    return Packs(rules, {each.id: each for each in rules}, known.packs, known.dialects)


@cache
def foreign_packs() -> tuple[Packs, Begin]:
    """The foreign packs, and their compiled patterns."""
    made = foreign()
    return made, Begin.of(made.all, "agent")


def judgement(facts: dict[str, Any]) -> list[Any]:
    """What a report says of its incidents and alerts, but for the ids of classes."""
    return [
        *[{key: _own(each.get(key)) for key in KEYS} for each in facts["incidents"] + facts["alerts"]],
        sorted({_own(moment["class"]) for each in facts["incidents"] for moment in each["timeline"]}),
        facts["outcome"]["state"],
    ]


def _own(value: Any) -> Any:
    return value.removeprefix(FOREIGN) if isinstance(value, str) else value


def differing(folders: Iterable[Path]) -> list[str]:
    """The names of the folders that are judged otherwise under foreign ids."""
    own, begin = foreign_packs()
    found = []
    for folder in folders:
        result = scan(gather([folder]), own.all, "agent", cores=1, begin=begin)
        if judgement(scan_facts(judged(result, own, NOW, 0.0))) != judgement(scanned(folder)):
            found.append(folder.name)
    return found


def test_stories_are_judged_alike_under_foreign_ids() -> None:
    assert differing(CORPUS / "failures" / name for name in STORIES) == []


@pytest.mark.long
@pytest.mark.parametrize("kind", ["failures", "harmless"])
def test_all_folders_are_judged_alike_under_foreign_ids(kind: str) -> None:
    assert differing(sorted(each for each in (CORPUS / kind).iterdir() if each.is_dir())) == []
