"""A pattern that a person types ends soon on any line, and is given up where many lines are slow."""

from __future__ import annotations

import pytest

from gpuwatch.rules.compiling.check import PatternError
from gpuwatch.rules.compiling.typed_pattern import CPU_SHARE, MAX_CPU_S, MAX_WINDOW, TypedPattern
from tests.rules.compiling.costs import at_most

LONGEST_S = 10.0
"""CPU seconds for one line; 0.3 s here."""


@pytest.mark.parametrize(
    "text", ["(a+)+b", "a?" * 25 + "b", "(?:a|ab|b)" * 20 + "#", "a.*b.*c.*d", "[", "x" * 1001]
)
def test_what_could_take_too_long_is_refused(text: str) -> None:
    with pytest.raises(PatternError):
        TypedPattern(text)


@pytest.mark.parametrize(("text", "line"), [("a.*b", "a"), ("step.*loss.*grad", "steploss")])
def test_one_line_of_any_length_ends_soon(text: str, line: str) -> None:
    pattern = TypedPattern(text)
    with at_most(LONGEST_S):
        assert pattern.search(line * 100_000) is False


@pytest.mark.parametrize(
    "text", ["rank.*step.*loss.*nan", r"\bloss[:=] ?(\d+\.\d+|nan|inf)", "(?i)error", ".*oom.*"]
)
def test_ordinary_patterns_are_taken(text: str) -> None:
    line = "[rank3] 12:00:00 step 7, Error: oom, loss= nan"
    assert TypedPattern(text).search(line) is True


def test_words_see_the_whole_line_and_capitals_decide_on_case() -> None:
    assert TypedPattern("loss").window == MAX_WINDOW
    assert TypedPattern("loss").search("x" * 60_000 + " LOSS")
    assert TypedPattern("Loss").search("LOSS") is False
    assert TypedPattern("o+").spans("foo bo") == [(1, 3), (5, 6)]


def test_it_is_given_up_after_its_share_of_time() -> None:
    wall, cpu = [0.0], iter(x / 4 for x in range(1000))
    pattern = TypedPattern("x", clock=lambda: wall[0], cpu_clock=lambda: next(cpu))
    found = [pattern.search("y") for _ in range(7)]
    assert found == [False] * int(MAX_CPU_S * 4 + 1) + [None, None]
    wall[0] = 10.0
    patient = TypedPattern("x", clock=lambda: 10.0 * wall[0] - 100.0, cpu_clock=lambda: next(cpu))
    wall[0] = 10.0 + MAX_CPU_S / CPU_SHARE
    assert [patient.search("y") for _ in range(7)] == [False] * 7
