"""Finds ranks whose GPUs were idle while the others waited in a collective that timed out.

Example: ranks 0, 1 and 3 report a timeout of 20 s, or are ended before they can. Their GPUs were 100 % busy
until then, as those of ranks in a collective are; the GPU of rank 2 was idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import msgspec

from gpuwatch.diagnose.model.alert import IDLE_RANKS, Alert
from gpuwatch.diagnose.model.failure_classes import TIMEOUTS
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.jobs.places import RankPlace

WINDOW_S = 10
"""Length in seconds of the window over which the utilization is averaged."""
BEFORE_S = 2
"""Seconds between that window and the first report; the rank that first timed out may report late."""
REPORT_WINDOW_S = 60.0
"""Seconds after a report of a timeout within which it is compared with the histories of the GPUs."""
WAITING_PCT, IDLE_PCT = 90.0, 10.0
MAX_IDLE_SHARE = 0.1
"""More idle ranks than this share, and more than one, are a regular part of the job."""
KEPT_TIMEOUTS = 1000


class IdleRanks:
    """Stores the idle ranks of each timeout, because the histories of GPUs are short."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, int], frozenset[int]] = {}
        """Job and time of its first timeout (unix seconds) -> idle ranks."""

    def applied(
        self, alerts: Sequence[Alert], where: RankIndex, fleet: Fleet, now: float, wall: float
    ) -> list[Alert]:
        """Return the alerts; timeouts get the field `IDLE_RANKS` with the ranks that were idle before them.

        `now`: the fleet's clock, `wall`: unix seconds.
        """
        first: dict[str, float] = {}
        for alert in alerts:
            if alert.job is not None and alert.timed and alert in TIMEOUTS:
                first[alert.job] = min(alert.first, first.get(alert.job, alert.first))
        keys = {job: (job, int(at)) for job, at in first.items()}
        for job, key in keys.items():
            if key not in self._found and wall - first[job] < REPORT_WINDOW_S:
                self._found[key] = idle_ranks(where.ranks(job), fleet, wall - first[job], now)
        self._found = dict(list(self._found.items())[-KEPT_TIMEOUTS:])
        return [self._with_idle(alert, keys) if alert in TIMEOUTS else alert for alert in alerts]

    def _with_idle(self, alert: Alert, keys: dict[str, tuple[str, int]]) -> Alert:
        ranks = self._found.get(keys.get(alert.job or "", ("", 0)))
        if not ranks:
            return alert
        fields = {**alert.fields, IDLE_RANKS: " ".join(map(str, sorted(ranks)))}
        return msgspec.structs.replace(alert, fields=fields)


def idle_ranks(places: Sequence[RankPlace], fleet: Fleet, ago_s: float, now: float) -> frozenset[int]:
    """Return the few ranks whose GPUs were idle while those of all others were busy; empty: there are none.

    Args:
        places: All ranks of a job.
        fleet: The nodes, with the histories of their GPUs.
        ago_s: Seconds since the first timeout.
        now: The fleet's clock.
    """
    busy = {place.rank: _busy_pct(place, fleet, ago_s, now) for place in places}
    idle = frozenset(rank for rank, pct in busy.items() if pct is not None and pct <= IDLE_PCT)
    waiting = [rank for rank, pct in busy.items() if pct is not None and pct >= WAITING_PCT]
    whole = bool(waiting) and len(waiting) + len(idle) == len(busy)
    return idle if whole and len(idle) <= max(1, MAX_IDLE_SHARE * len(busy)) else frozenset()


def _busy_pct(place: RankPlace, fleet: Fleet, ago_s: float, now: float) -> float | None:
    """Return the mean utilization in the window before the timeout, in percent; None: mostly unknown."""
    node = fleet.nodes.get(place.node)
    gpu = None if node is None or place.gpu_uuid is None else node.gpus.get(place.gpu_uuid)
    if gpu is None:
        return None
    seconds = ceil(max(0.0, ago_s)) + BEFORE_S + WINDOW_S
    values = gpu.history.series("util", seconds, seconds, now)[:WINDOW_S]
    known = values[values == values]  # noqa: PLR0124 - NaN is not itself
    return float(known.mean()) if 2 * len(known) >= WINDOW_S else None
