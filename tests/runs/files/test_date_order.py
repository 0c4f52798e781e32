"""Dates of two small numbers: the day comes first where lines, other files or times show it."""

from __future__ import annotations

import time
from calendar import timegm
from collections.abc import Sequence

import pytest

from gpuwatch.agent.logs.lines.timestamps import day_first, time_of
from gpuwatch.runs.files.excerpts.date_order import files_with_day_first

NOVEMBER = float(timegm((2026, 11, 10, 12, 0, 0)))
OCTOBER = float(timegm((2026, 10, 11, 12, 0, 0)))


@pytest.mark.parametrize(
    ("other", "modified", "expected"),
    [
        ((), 0.0, False),
        (["13/10/2026 03:00:00 x"], 0.0, True),
        (["10/13/2026 03:00:00 x"], NOVEMBER, False),
        (["10/13/2026 03:00:00 x", "13/10/2026 03:00:00 x"], 0.0, False),  # of two programs: unknown
        (["2026-11-10T03:00:00Z x"], 0.0, True),
        (["Nov 10 03:00:00 2026 x", "[Tue Nov 10 03:00:00 2026] x"], 0.0, True),
        (["2026-10-11T03:00:00Z x"], NOVEMBER, False),
        ((), NOVEMBER, True),
        ((), OCTOBER, False),
    ],
)
def test_other_stamps_show_the_order(other: Sequence[str], modified: float, expected: bool) -> None:
    samples = [("a.log", [b"10/11/2026 03:10:57 x"]), ("b.log", [line.encode() for line in other])]
    assert ("a.log" in files_with_day_first(samples, {"a.log": modified})) == expected


@pytest.mark.parametrize(
    ("days", "expected"),
    [(("09/11", "10/11"), True), (("11/09", "11/10"), False), (("09/11", "09/11"), False)],
)
def test_a_midnight_shows_the_order(days: tuple[str, str], expected: bool) -> None:
    lines = [f"{days[0]}/2026 23:59:58 x".encode(), f"{days[1]}/2026 00:00:03 x".encode()]
    assert ("a.log" in files_with_day_first([("a.log", lines)], {})) == expected


def test_an_unambiguous_date_keeps_its_order() -> None:
    with day_first(is_first=True):
        assert time_of("09/11/2026 03:00:00 x", 0.0) == time.mktime((2026, 11, 9, 3, 0, 0, 0, 0, -1))
        assert time_of("10/13/2026 03:00:00 x", 0.0) == time.mktime((2026, 10, 13, 3, 0, 0, 0, 0, -1))
    assert time_of("09/11/2026 03:00:00 x", 0.0) == time.mktime((2026, 9, 11, 3, 0, 0, 0, 0, -1))
