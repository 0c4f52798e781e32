"""`scan` and `rules test` come to an end, whatever a pattern does on a line, and say what they left out."""

from __future__ import annotations

import cProfile
import time
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from gpuwatch.agent.logs.matching.candidate import CandidateLine
from gpuwatch.agent.logs.matching.chunk import Chunk
from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.rules.compiling.compile import compiled
from gpuwatch.rules.model.rule import Rule
from gpuwatch.rules.model.time_limit import EndlessError, TimeLimit
from gpuwatch.rules.scoring.score import Excerpt, score
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.prefilter.piece_prefilter import PiecePrefilter
from gpuwatch.runs.scan import bounded_scan
from gpuwatch.runs.scan.result import Scan
from gpuwatch.runs.scan.scan import scan
from tests.agent.logs.conftest import BOOM, ENDLESS
from tests.sentences import Sentences

BAIT = "ENDLESS " + "a" * 60 + "!\n"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_scan, "SEARCH_S", 0.3)
    monkeypatch.setattr(bounded_scan, "LINE_S", 0.2)


def scanned(folder: Path, *rules: Rule) -> Scan:
    return scan(gather([folder]), [BOOM, *rules], "agent")


def codes(found: Scan) -> list[str]:
    return sorted(str(each.finding.fields["code"]) for each in found.located if each.finding.rule == BOOM.id)


def test_a_rule_that_has_no_end_is_suspended_in_its_file_and_named(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("BOOM code=1\n" + BAIT + "BOOM code=2\n")
    (tmp_path / "b.log").write_text("BOOM code=3\nENDLESS aab\n")
    found = scanned(tmp_path, ENDLESS)
    assert list(found.suspended) == [ENDLESS.id]
    assert [file.trouble for file in found.files] == [None, None]
    assert {each.finding.file[-5:] for each in found.located if each.finding.rule == ENDLESS.id} == {"b.log"}
    assert codes(replace(found, located=tuple(h for h in found.located if h.finding.rule == BOOM.id))) == [
        "1",
        "2",
        "3",
    ]


def test_what_is_prepared_before_a_piece_has_no_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database of all patterns takes seconds to compile: the limit of a search would end that each time."""
    (tmp_path / "a.log").write_text("BOOM code=1\n")

    def prepare(_self: PiecePrefilter) -> None:
        began = time.process_time()
        while time.process_time() < began + 2 * bounded_scan.SEARCH_S:
            pass
        (tmp_path / "prepared").touch()

    monkeypatch.setattr(PiecePrefilter, "prepare", prepare)
    assert codes(scanned(tmp_path)) == ["1"]
    assert (tmp_path / "prepared").exists()


@pytest.mark.parametrize(("search_s", "blamed"), [(0.001, ""), (9.0, "a.rule")])
def test_a_rule_is_blamed_only_for_its_own_time(search_s: float, blamed: str) -> None:
    ruleset = RuleSet([])
    limit = TimeLimit(ruleset)
    assert ruleset.entered is not None
    assert ruleset.left is not None
    with pytest.raises(EndlessError) as raised, limit.of(0.1):
        while True:
            ruleset.entered("a.rule")
            until = time.process_time() + search_s
            while time.process_time() < until:
                pass
            ruleset.left()
    assert raised.value.rule == blamed


@pytest.mark.parametrize(("in_all", "ends"), [(60.0, False), (0.15, True)])
def test_work_that_goes_on_may_take_longer_than_one_search(in_all: float, ends: bool) -> None:
    ruleset = RuleSet([])
    limit = TimeLimit(ruleset)
    assert ruleset.entered is not None
    assert ruleset.left is not None
    until, ended = time.process_time() + 0.4, False
    try:
        with limit.of(0.1, in_all):
            while time.process_time() < until:
                ruleset.entered("a.rule")
                ruleset.left()
    except EndlessError:
        ended = True
    assert ended is ends


def test_lines_are_searched_once_and_found_alike_on_a_slow_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = []

    class Slow(CandidateLine):
        def __init__(self, chunk: Chunk, span: tuple[int, int], local_ranks: bool, phrases: Any) -> None:
            searched.append(span[0])
            until = time.process_time() + spin_s
            while time.process_time() < until:
                pass
            super().__init__(chunk, span, local_ranks, phrases)

    monkeypatch.setattr("gpuwatch.agent.logs.scanning.line_findings.CandidateLine", Slow)
    (tmp_path / "a.log").write_text("".join(f"BOOM code={n}\n" for n in range(100)))
    spin_s = 0.0
    fast, lines = scanned(tmp_path), list(searched)
    searched.clear()
    spin_s = 0.006
    slow = scanned(tmp_path)
    assert (searched, repr(slow)) == (lines, repr(fast))


def test_the_lines_above_are_found_without_looking_at_all_that_came_before() -> None:
    text = b"".join(b"line %d of many\n\n" % number for number in range(3000))
    profile = cProfile.Profile()
    lines = profile.runcall(Chunk(text, 0, b"").above, len(text), 40)
    assert lines == [b"line %d of many" % number for number in range(2960, 3000)]
    assert sum(row.callcount for row in profile.getstats()) < 300


def test_a_line_that_a_second_rule_has_no_end_on_is_skipped_and_counted(tmp_path: Path) -> None:
    text = "BOOM code=1\n" + BAIT + "BOOM code=2\n"
    (tmp_path / "a.log").write_text(text)
    found = scanned(tmp_path, ENDLESS, replace(ENDLESS, id="test.endless_too"))
    assert len(found.suspended) == 1
    begin = text.index("ENDLESS")
    assert f"bytes {begin} to {begin + len(BAIT)}" in (found.files[0].trouble or "")
    assert codes(found) == ["1", "2"]


def test_lines_without_an_end_are_skipped_where_no_rule_is_to_blame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sentences: Sentences
) -> None:
    class Endless(CandidateLine):
        def __init__(self, chunk: Chunk, span: tuple[int, int], local_ranks: bool, phrases: Any) -> None:
            while b"code=2" in chunk.clean[slice(*span)]:
                pass
            super().__init__(chunk, span, local_ranks, phrases)

    monkeypatch.setattr("gpuwatch.agent.logs.scanning.line_findings.CandidateLine", Endless)
    (tmp_path / "a.log").write_text("".join(f"BOOM code={n}\n" for n in (1, 2, 3, 2, 4)))
    found = scanned(tmp_path)
    assert codes(found) == ["1", "3", "4"]
    assert (found.files[0].trouble or "").startswith("2 lines (24 bytes)")
    (tmp_path / "a.log").write_text("BOOM code=2\n" * 40 + "BOOM code=5\n")
    sentences(scanned(tmp_path).files[0].trouble or "")


def test_excerpts_are_judged_without_the_rule_that_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuwatch.rules.model.time_limit.EXCERPT_S", 0.3)
    rules = RuleSet(compiled([BOOM, ENDLESS]))
    judged = score(rules, [Excerpt("1", BOOM.id, "error", (BAIT.strip(), "BOOM code=1"))])
    assert (judged.detected, list(rules.suspended)) == (1, [ENDLESS.id])
