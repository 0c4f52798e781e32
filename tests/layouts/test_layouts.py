"""The rank that failed is named in layouts that nobody chose, and no other one is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.corpus.score import scanned
from tests.layouts.grammar import Folder, composed
from tests.layouts.joins import joined

SHORT, LONG = range(16), range(1000, 1400)
NAMED, WRONG = 0.88, 0.02
"""Least share of folders whose failed rank is named; largest share of those with another one."""


def answer(
    made: Callable[[int], tuple[Folder, int, str]], seed: int, folder: Path
) -> tuple[int | None, int, str]:
    """Return the rank that `scan` names, the right one, and the kind of the layout."""
    files, failed, kind = made(seed)
    for name, lines in files.items():
        path = folder / str(seed) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    incidents = scanned(folder / str(seed))["incidents"]
    return (incidents[0]["rank"] if incidents else None), failed, kind


@pytest.mark.parametrize("seeds", [SHORT, pytest.param(LONG, marks=pytest.mark.long)])
@pytest.mark.parametrize("made", [composed, joined])
def test_the_failed_rank_is_named(
    made: Callable[[int], tuple[Folder, int, str]], seeds: range, tmp_path: Path
) -> None:
    found = {seed: answer(made, seed, tmp_path) for seed in seeds}
    wrong = {seed: each for seed, each in found.items() if each[0] not in (None, each[1])}
    missed = {seed: each for seed, each in found.items() if each[0] is None}
    assert len(wrong) <= WRONG * len(found), wrong
    assert len(found) - len(wrong) - len(missed) >= NAMED * len(found), missed
