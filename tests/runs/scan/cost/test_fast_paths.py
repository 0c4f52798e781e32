"""What a scan passes over changes nothing: the same marks, facts about ranks and last lines as without."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.agent.logs.files.packing_magic import packed_inside
from gpuwatch.agent.logs.matching.prefilter import Prefilter
from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.runs.files.excerpts.samples import sample_of
from gpuwatch.runs.files.files import gather
from gpuwatch.runs.placement.rank_census import census
from gpuwatch.runs.placement.rank_facts import Census, RepeatedLines
from gpuwatch.runs.prefilter.piece_prefilter import PiecePrefilter
from gpuwatch.runs.prefilter.seen_shapes import SeenShapes
from gpuwatch.runs.saved_outputs.sections import MARKS
from gpuwatch.runs.steps.step_lines import last_of_ranks

CORPUS = Path(__file__).parents[3] / "corpus"


def pieces() -> Iterator[bytes]:
    """Texts of the corpus, cut into pieces; in between made-up lines that hold marks or nearly do."""
    made = random.Random(18)
    texts = [file.read_bytes()[:30_000] for file in sorted((CORPUS / "failures").glob("*/*.log"))[::12]]
    for text in texts:
        for start in range(0, len(text), 7_000):
            yield text[start : start + 7_000]
        mark = made.choice(MARKS)
        step = b"step %d %s" % (made.randrange(10**6), made.choice((mark, mark[:-1], mark.lower(), b"x")))
        yield b"\n".join([step, b"Node%d:   x" % made.randrange(10), b"a %s b" % mark[1:], b"step 1"])


def test_a_mark_is_seen_whatever_shapes_were_seen_before() -> None:
    seen, prefilter = SeenShapes(MARKS), PiecePrefilter(RuleSet([]))
    found = [(seen.hold(piece, prefilter), any(mark in piece for mark in MARKS)) for piece in pieces()]
    assert {True, False} == {expected for _, expected in found}
    assert all(held == expected for held, expected in found)


def test_the_shapes_of_a_piece_are_those_of_any_prefilter() -> None:
    kept, plain = PiecePrefilter(RuleSet([])), Prefilter(RuleSet([]))
    for piece in (b"a 1\nb 2\n", b"a 3\n", b""):
        assert kept.shapes(piece) == kept.shapes(piece) == plain.shapes(piece)


@pytest.mark.parametrize("folder", ["failures", "harmless"])
def test_repeated_lines_add_no_fact_about_ranks(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = gather([CORPUS / folder]).files
    chosen = found[:: max(1, len(found) // 150)]
    samples = [(log.name, sample_of(log, len(chosen))) for log in chosen]
    fast = census(samples)
    passed = 0

    def none(_self: RepeatedLines, _raw: bytes, _key: object) -> bool:
        nonlocal passed
        passed += 1
        return False

    monkeypatch.setattr(RepeatedLines, "holds", none)
    slow = census(samples)
    assert passed > 1_000
    assert [each for each in Census.__struct_fields__ if getattr(fast, each) != getattr(slow, each)] == []


def test_a_number_that_never_changed_is_read_once_it_does() -> None:
    lines = [b"step %d world_size=8 loss 2.%d" % (step, step) for step in range(60)]
    lines += [b"step 60 world_size=16 loss 2.1", b"step 61 world_size=16 loss 2.1"]
    assert census([("a", lines)]).worlds == {8, 16}


def test_the_last_line_of_each_rank_is_found_in_a_file_of_one_and_of_many() -> None:
    for ranks in (1, 5):
        lines = [b"[rank%d]: step %d" % (n % ranks, n) for n in range(100)]
        shapes = [b"[rank]: step "] * 100
        kinds = {shapes[0]: b"k"}
        for last in (99, 50):
            found = last_of_ranks(lines, shapes, range(100), kinds, last)
            assert sorted(found.values()) == list(range(last + 1 - ranks, last + 1))


@pytest.mark.parametrize(
    "magic", [b"\x1f\x8b\x08", b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"1AY&SY", b"\xfd7zXZ\0"]
)
def test_packed_data_within_text_is_seen(magic: bytes) -> None:
    assert packed_inside(b"step 1 & 2\n" + magic) is not None
    assert packed_inside(b"step 1 & 2\n" + magic[:-1]) is None
