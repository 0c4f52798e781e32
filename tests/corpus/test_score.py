"""Silence on harmless log folders and recall on failures: neither may be bought with the other."""

from __future__ import annotations

from pathlib import Path

from tests.corpus.score import CORPUS, score

MAX_FALSE = 0
MIN_FOUND = 336
MIN_CLASS = 336
MIN_RANK = 150
MIN_NODE = 107
KINDS = 6
"""Harmless folders of each kind, at least (an epilog of a scheduler: half of that)."""


def test_harmless_folders_stay_silent_and_failures_are_found() -> None:
    """The figures may only get better; whoever betters them writes the new ones here."""
    found = score()
    reported = "\n".join(found.lines())
    assert len(found.false_alarms) <= MAX_FALSE, reported
    assert len(found.failures) - len(found.missed) >= MIN_FOUND, reported
    assert found.right("class")[0] >= MIN_CLASS, reported
    assert found.right("rank")[0] >= MIN_RANK, reported
    assert found.right("node")[0] >= MIN_NODE, reported


def test_every_labelled_folder_is_there_and_every_folder_is_labelled() -> None:
    """A folder without a label would never be scored."""
    for kind, least in (("harmless", 80), ("failures", 40)):
        names = {case.name for case in getattr(score(), kind)}
        assert names == {path.name for path in (CORPUS / kind).iterdir() if path.is_dir()}
        assert len(names) >= least


def test_every_kind_of_harmless_log_is_there() -> None:
    """Retries, fall-backs, names, tests, text, other programs, ends on purpose, restarts and more."""
    kinds: dict[str, int] = {}
    for case in score().harmless:
        kinds[case.label["kind"]] = kinds.get(case.label["kind"], 0) + 1
    assert {kind for kind, count in kinds.items() if count < KINDS} <= {"epilog"}


def test_no_label_stands_where_a_scan_reads_it() -> None:
    """The scan of a folder sees its logs alone."""
    assert not [path for path in Path(CORPUS).rglob("label*") if path.parent.parent != CORPUS]
