"""Times and levels of lines."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from gpuwatch.agent.logs.lines.levels import level
from gpuwatch.agent.logs.lines.rows import row
from gpuwatch.agent.logs.lines.timestamps import time_of
from gpuwatch.wire import LogLine

NOON = 1749988800.0
"""2025-06-15 12:00:00 UTC, 14:00:00 in Berlin."""


@pytest.fixture(autouse=True)
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("line", "seconds"),
    [
        ("2025-06-15T12:00:00Z x", 0),
        ("2025-06-15T12:00:00.250Z stderr F x", 0.25),
        ("2025-06-15T17:30:00+05:30 x", 0),
        ("2025-06-15 14:00:00,500 - INFO - x", 0.5),
        ("[2025-06-15 14:00:01,500] [INFO] x", 1.5),
        ("[rank3]: 2025/06/15 14:00:00 x", 0),
        ("[E615 14:00:02.512781555 ProcessGroupNCCL.cpp:616] x", 2.512781555),
        ("[rank3]:[W0615 14:00:02.500000 1234 x.py:869] x", 2.5),
        ("I20250615 14:00:02.500000 1234 x.cc:1] x", 2.5),
        ("[Sun Jun 15 14:00:00 2025] NVRM: x", 0),
        ("Jun 15 14:00:00 gpu-1 kernel: x", 0),
        ("INFO 06-15 14:00:00 engine.py:1] x", 0),
        ("[1749988800.388533] [cn1:74988:0] x", 0.388533),
        ("[2025-06-15T14:00:00.500] [63532.0] error: x", 0.5),
        ("6月 15 14:00:00 gpu-1 kernel: x", 0),
        ("6월 15 14:00:00 gpu-1 sshd[4]: x", 0),
        ("juin 15 14:00:00 gpu-1 kernel: x", 0),
        ("Июн 15 14:00:00 gpu-1 kernel: x", 0),
        ("cze 15 14:00:00 gpu-1 kernel: x", 0),
        ("15.06.2025 14:00:00,500 - INFO - x", 0.5),
        ("[15.06.2025, 14:00:01] x", 1),
        ("[15/06/2025 14:00:02] x", 2),
        ("15-06-2025 14:00:03 x", 3),
    ],
)  # fmt: skip
def test_the_time_of_a_line(line: str, seconds: float) -> None:
    at = time_of(line, NOON + 3600)
    assert at is not None
    assert at == pytest.approx(NOON + seconds, abs=1e-3)


@pytest.mark.parametrize(
    "line", ["step 10 loss 2.5", "[   12.345678] x", "2025-13-45 99:00:00 x", "12:00:00 x"]
)
def test_a_line_without_a_date_has_no_time(line: str) -> None:
    assert time_of(line, NOON) is None


def test_a_year_that_is_missing_comes_from_the_arrival() -> None:
    new_year = 1767225600.0  # 2026-01-01 00:00:00 UTC
    assert time_of("Dec 31 23:59:59 gpu-1 kernel: x", new_year) == new_year - 3600 - 1
    assert time_of("Jan  1 01:00:01 gpu-1 kernel: x", new_year) == new_year + 1


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("2025-06-15 12:00:00 ERROR x", "error"),
        ("[W socket.cpp:426] [c10d] x", "warning"),
        ("[rank3]:[E1119 13:21:12.5 x.cpp:6] x", "error"),
        ("E0325 20:57:27.620000 2606 api.py:869] failed", "error"),
        ("ValueError: x", "error"),
        ("UserWarning: x", "warning"),
        ("CRITICAL x", "critical"),
        ("Traceback (most recent call last):", "error"),
        ("INFO no errors so far", None),
        ("step 5 loss 1.0", None),
    ],
)
def test_the_level_of_a_line(line: str, expected: str | None) -> None:
    assert level(line) == expected


def test_a_row_is_a_line_of_the_wire() -> None:
    line = LogLine(*row(10, 60, "[rank3]: 2025-06-15T12:00:00Z ERROR x", NOON + 9))
    assert (line.t, line.rank, line.level, line.arrived) == (NOON, 3, "error", NOON + 9)
