"""Lines of one local date need not be read for a time that is a day later."""

from __future__ import annotations

import random

import pytest

from gpuwatch.agent.logs.lines.splitter import unmasked_text
from gpuwatch.agent.logs.lines.timestamps import EARLY, local_day, time_of
from gpuwatch.agent.logs.matching import chunk as chunks
from gpuwatch.agent.logs.matching.chunk import Chunk

ARRIVED = 1_760_000_000.0
HEADS = [
    "",
    "[",
    "INFO ",
    "[rank3]: ",
    "I",
    "Jun ",
    "Mon Jun ",
    "12 ",
    '{"time": "',
    "time=",
    "\x1b",
    "é ",
    "- [",
]
TIMES = [
    "2025-06-01 08:05:40,003", "2025-06-01T23:59:60", "2025-06-01 01:00:00", "2025-06-02 08:05:40",
    "2025-06-01 08:05:40+09:00", "2025-06-01 08:05:40 Z", "2025-06-01_08:05:40", "2025-06-01 99:05:40",
    "2025-06-01", "Jun  3 08:05:40", "1750000000", "2025/06/04 08:05:40", "06-05 08:05:40",
]  # fmt: skip
TAILS = [
    " - INFO - step 3",
    "]",
    " UTC x",
    "Z",
    " +0200",
    ' {"time": "2025-07-01 08:00:00"}',
    "",
    " 2025-06-09 10:00:00",
    ".",
]


def lines(seed: int, count: int) -> list[bytes]:
    chance = random.Random(seed)
    return [
        (chance.choice(HEADS) + chance.choice(TIMES) + chance.choice(TAILS)).encode() for _ in range(count)
    ]


def test_the_date_is_that_of_the_time_that_is_read() -> None:
    known = 0
    for line in lines(1, 4000):
        day = local_day(line)
        at = time_of(unmasked_text(line), ARRIVED)
        if day is not None and at is not None:
            known += 1
            begin = time_of(f"{day[0].decode()} 00:00:00", ARRIVED)
            assert begin is not None and 0 <= at - begin < 90_002, line
    assert known > 200
    assert local_day(b"[rank3]: 2025-06-01 08:05:40,003 - INFO") == (b"2025-06-01", b"08")


@pytest.mark.parametrize("seed", range(4))
def test_a_time_a_day_later_is_found_as_by_reading_all_lines(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = lines(seed, 600)
    data = b"\n".join(text)
    chunk = Chunk(data, 0, b"", ARRIVED)
    start, found = 0, []
    for line in text:
        own = time_of(unmasked_text(line), ARRIVED)
        later = chunk.later_time(start, start + len(line))
        found.append(later if own is not None and later is not None and later - own > 86_400 else None)
        start += len(line) + 1
    monkeypatch.setattr(chunks, "EARLY", b"99")
    start = 0
    for line, fast in zip(text, found, strict=True):
        own = time_of(unmasked_text(line), ARRIVED)
        later = chunk.later_time(start, start + len(line))
        assert fast == (later if own is not None and later is not None and later - own > 86_400 else None)
        start += len(line) + 1
    assert any(found) and EARLY < b"99"
