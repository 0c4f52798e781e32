"""Every built-in pattern takes time in proportion to the line, whatever the line repeats."""

from __future__ import annotations

import re
import time

import pytest

from gpuwatch.agent.logs.matching.matcher import SEARCHED_CHARS
from gpuwatch.rules.load import load_packs
from tests.packs import patterns_of
from tests.rules.compiling.costs import REPEATED, slowest_pump

pytestmark = pytest.mark.long

SHARE = 4
"""The longer line has this many times the length of the shorter one."""
MOST = 9.0
"""Times the CPU time of the shorter line; a quadratic pattern takes 16."""
NOISE_S = 0.004
"""Of CPU time for a whole line, below which nothing is compared."""


def cost_s(pattern: re.Pattern[str], line: str) -> float:
    best = float("inf")
    for _ in range(3):
        began = time.process_time()
        pattern.search(line)
        best = min(best, time.process_time() - began)
        if best < NOISE_S:
            break
    return best


@pytest.mark.long
@pytest.mark.timeout(600)
def test_no_pattern_is_worse_than_linear() -> None:
    slow = []
    for entry in load_packs().all:
        for text in patterns_of(entry):
            pattern = re.compile(text)
            for piece in REPEATED:
                line = (piece * SEARCHED_CHARS)[:SEARCHED_CHARS]
                long = cost_s(pattern, line)
                if long >= NOISE_S and long > MOST * cost_s(pattern, line[: SEARCHED_CHARS // SHARE]):
                    slow.append((entry.id, text[:60], piece, long))
    assert not slow


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_no_repeat_of_a_pattern_is_worse_than_linear() -> None:
    slow = []
    for entry in load_packs().all:
        for text in patterns_of(entry):
            line = slowest_pump(re.compile(text).search, text)
            if line is not None:
                slow.append((entry.id, text[:60], line[:400]))
    assert not slow
