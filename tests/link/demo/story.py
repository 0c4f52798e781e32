"""The demo's story up to any of its seconds, made once a run: its frames do not depend on its end."""

from __future__ import annotations

import fcntl
import os
import pickle
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from msgspec.structs import replace

from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.link.demo.links import arrivals
from gpuwatch.link.stream.inbox import Arrival

LAST_S = 120.0
"""The job has ended by then."""


def frames_until(second: float, ends_at: float) -> Iterator[Arrival]:
    """What `arrivals(demo_plan(), second, ends_at)` gives, oldest first.

    Raises:
        ValueError: the second is after `LAST_S`.
    """
    if second > LAST_S:
        raise ValueError(f"second {second} of a story of {LAST_S} s")
    later = ends_at - second
    for arrival in _whole_story():
        if arrival.at <= second + 1e-6:
            yield replace(arrival, at=arrival.at + later)


@cache
def _whole_story() -> Sequence[Arrival]:
    """Return the demo's arrivals, with times from its start; the first process takes 3 s of CPU for them."""
    kept = Path(os.environ["XDG_CACHE_HOME"]) / "story"  # tests/conftest.py makes it for this run
    with kept.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        if file.tell():
            file.seek(0)
            story: Sequence[Arrival] = pickle.load(file)  # noqa: S301 - our own
        else:
            story = arrivals(demo_plan(), LAST_S, LAST_S)
            pickle.dump(story, file, pickle.HIGHEST_PROTOCOL)
    return story
