"""What a verdict over the dumps of 1,000 ranks costs, and reading one of them."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Sequence

from gpuwatch.diagnose.flight import judge_flight
from gpuwatch.runs.flight import read_dump
from tests.bench.cpu import Row
from tests.diagnose.dumps import content, job, steps

RANKS, ENTRIES = 1000, 2000
GOAL_S = 0.1


def rows() -> Sequence[Row]:
    """Dumps with a full ring of 2,000 entries."""
    dumps = job(RANKS, {500: steps(ENTRIES - 1, "completed")}, steps(ENTRIES))
    judging = _best(lambda: judge_flight(dumps))
    data = pickle.dumps(content(steps(ENTRIES), {"0": range(RANKS)}), 2)
    reading = _best(lambda: read_dump(data, 0, "trace_rank_0"))
    return [
        Row(
            f"flight: verdict over {RANKS:,} dumps of {ENTRIES:,} entries",
            f"{judging * 1e3:.0f} ms CPU",
            f"<= {GOAL_S * 1e3:.0f} ms",
            judging <= GOAL_S,
        ),
        Row(f"flight: one dump read ({len(data) / 1e6:.1f} MB)", f"{reading * 1e3:.0f} ms CPU", "", None),
    ]


def _best(call: Callable[[], object]) -> float:
    best = float("inf")
    for _ in range(5):
        began = time.process_time()
        call()
        best = min(best, time.process_time() - began)
    return best
