"""Causes within one second: which leads is defined, and no order of files or arrivals changes it."""

from __future__ import annotations

from itertools import permutations

import pytest

from tests.diagnose.finding import Reporter, places

CAUSES = (
    "gpu.xid.fell_off",
    "oom.host.kernel",
    "storage.full",
    "rank.killed",
    "python.exception",
    "rank.abort",
)
"""Device, kernel, a rank's own specific error, the end of a process, an exception, a following end."""


@pytest.mark.parametrize("first", range(len(CAUSES) - 1))
def test_the_lead_is_the_same_in_every_order(first: int) -> None:
    left = CAUSES[first:]
    for order in list(permutations(left))[:24]:
        report = Reporter(places(64))
        for code in order:
            rank = 8 * CAUSES.index(code) + 3
            if code in CAUSES[:2]:
                report.kernel(code, 0.0, f"gpu-{rank // 8 + 1:03d}", pci="0000:03:00", xid=79)
            else:
                report.emit(code, 0.0, rank)
        leads = {each.code for each in report.judged()[:1]}
        assert leads == {left[0]}, order
