"""Patterns whose time grew with the square of a text, or of its bounded part, are linear now."""

from __future__ import annotations

from collections.abc import Callable
from time import process_time

import pytest

from gpuwatch.agent.logs.discovery import globs
from gpuwatch.agent.logs.progress import quantities
from gpuwatch.agent.processes import process_details
from gpuwatch.diagnose.past_jobs import cluster_events
from gpuwatch.hosts import load
from gpuwatch.link.start import bundle

SHORT, LONG = 1 << 10, 1 << 16
NOISE_S = 0.05
"""CPU seconds for the long text below which nothing is compared: clocks may tick at 10 ms."""
MOST = 3.0
"""Times the cost per byte of the short text; a quadratic pattern takes 64."""


def cost_s(use: Callable[[str], object], text: str, again: int) -> float:
    began = process_time()
    for _ in range(again):
        use(text)
    return (process_time() - began) / again


@pytest.mark.parametrize(
    ("use", "piece"),
    [
        (bundle._COMMENT.match, "\t"),
        (process_details._USER_SLICE.search, "/<a:"),
        (process_details._is_of_user, "/<a:"),
        (cluster_events._NOT_STARTED.search, "\t"),
        (load._BRACKETS.findall, "["),
        (globs._PIECES.findall, "["),
        (quantities._PART.findall, "0"),
    ],
)
@pytest.mark.parametrize("head", ["", "0::/", "3m12s Warning Failed "])
@pytest.mark.parametrize("tail", ["", "#", "x]/"])
def test_the_cost_per_byte_does_not_grow(
    use: Callable[[str], object], piece: str, head: str, tail: str
) -> None:
    short, long = (head + piece * (size // len(piece)) + tail for size in (SHORT, LONG))
    for _ in range(3):
        whole = cost_s(use, long, 1)
        if whole < NOISE_S or whole < MOST * LONG / SHORT * cost_s(use, short, 16):
            return
    raise AssertionError((use, piece, head, tail))
