"""Progress of a rank, as its node sends it."""

from __future__ import annotations

from typing import Any

from gpuwatch.fleet.logs.progress import FleetProgress
from gpuwatch.wire import Progress

WALL = 1_750_000_000.0


def frame(fields: dict[str, Any], at: float = 0.0, **rest: Any) -> Progress:
    rest = {"file": "/logs/a.log", "offset": 0, "dialect": "progress.common", **rest}
    return Progress(t=WALL + at, seq=1, at=WALL + at, fields=fields, **rest)


def report(progress: FleetProgress, fields: dict[str, Any], at: float, **rest: Any) -> None:
    reported = frame(fields, at, **rest)
    progress.take("n1", reported, reported.t, at)
