"""Which lines are read for steps: few of those that state the same, and none of their kinds is missing."""

from __future__ import annotations

import random

from gpuwatch.agent.logs.matching.prefilter import SHAPELESS
from gpuwatch.agent.logs.progress.dialect import CompiledDialect
from gpuwatch.runs.steps.step_lines import BARREN_LINES, BARREN_SHARE, LineChoice

DIALECT = CompiledDialect({"id": "steps", "match": ["step"]})


def chosen(choice: LineChoice, lines: list[bytes]) -> list[int]:
    """The choice among a stretch of lines, all of which may report progress."""
    shapes = [line.translate(None, SHAPELESS) for line in lines]
    return choice.choose(lines, shapes, {key: [DIALECT] for key in shapes}, sum(map(len, lines)))


def words(seed: random.Random, count: int) -> list[bytes]:
    """Lines of which no two are of one kind."""
    return [
        f"read step of {''.join(seed.choices('ghijklmnopqrstuvwxyz', k=12))}".encode() for _ in range(count)
    ]


def test_lines_that_differ_in_hashes_only_are_of_one_kind() -> None:
    seed = random.Random(1)
    lines = [f"read sample {seed.getrandbits(64):x} of step {at}".encode() for at in range(5_000)]
    found = chosen(LineChoice(40), lines)
    assert 40 <= len(found) <= 50
    assert {0, 4_999} <= set(found)


def test_of_lines_that_report_nothing_few_are_read() -> None:
    seed = random.Random(2)
    choice = LineChoice(0)
    assert len(chosen(choice, words(seed, 500))) == 500  # nothing is known of them yet
    for _ in range(BARREN_LINES):
        choice.note([DIALECT], reported=False)
    assert len(chosen(choice, words(seed, 4_000))) < 4 * 4_000 / BARREN_SHARE
    choice.note([DIALECT], reported=True)
    assert len(chosen(choice, words(seed, 500))) == 500


def test_a_loss_that_is_no_number_is_read_among_lines_that_report_nothing() -> None:
    seed = random.Random(3)
    choice = LineChoice(0)
    for _ in range(BARREN_LINES):
        choice.note([DIALECT], reported=False)
    lines = words(seed, 4_000)
    lines[1_234] = b"step 7 loss nan"
    assert 1_234 in chosen(choice, lines)


def test_the_last_line_of_each_rank_is_read() -> None:
    lines = [f"[rank{at % 8}]: step {at} key {at * 40503:x}".encode() for at in range(2_000)]
    assert set(range(1_992, 2_000)) <= set(chosen(LineChoice(0), lines))


def test_of_many_ranks_the_stretches_take_turns_and_no_last_line_is_lost() -> None:
    choice, last = LineChoice(0), 0
    parsed, deferred = 0, 0
    for _ in range(8):
        lines = [f"[rank{at % 512}]: step {at}".encode() for at in range(last, last + 2_048)]
        last += 2_048
        parsed += len(chosen(choice, lines))
        waiting = {lines[index] for index in choice.deferred.values()}
        assert len(waiting) in (0, 512)
        assert not waiting or waiting == set(lines[-512:])
        deferred += bool(waiting)
    assert deferred == 7
    assert 512 <= parsed < 700
