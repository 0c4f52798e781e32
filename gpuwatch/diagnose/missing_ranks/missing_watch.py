"""Alerts for ranks that ended before gpuwatch started: siblings live, or the parent has not reaped them."""

from __future__ import annotations

from msgspec import structs

from gpuwatch.diagnose.missing_ranks.listed_ranks import ListedRanks, RankKey, Running
from gpuwatch.diagnose.missing_ranks.missing import MissingRank, missing_ranks
from gpuwatch.diagnose.missing_ranks.unreaped import has_failed, unreaped_ranks
from gpuwatch.diagnose.missing_ranks.vanished import (
    EVERY_S,
    SIBLINGS_S,
    how_ended,
    is_back,
    vanished_alert,
)
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.check_interval import PeriodicWatch, UnbrokenTimes
from gpuwatch.diagnose.model.failure_classes import VANISHED
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.wire import Severity

LOOKS_S = 2 * EVERY_S
"""Seconds for which a rank must be missing: it may lack in one process list, so two are needed."""


class MissingWatch(PeriodicWatch):
    """Raises an alert for each rank that stays missing. One that was seen alive is `VanishedWatch`'s."""

    def __init__(self) -> None:
        super().__init__(EVERY_S)
        self._listed = ListedRanks()
        self._seen: set[RankKey] = set()
        self._missing = UnbrokenTimes[RankKey]()

    def _check(self, fleet: Fleet, now: float, wall: float) -> bool:
        running = self._listed.update(fleet.nodes.values())
        self._seen.update(running)
        absent = {(one.job, one.rank): one for one in missing_ranks(fleet, now, running)}
        absent = {key: one for key, one in absent.items() if key not in self._seen}
        jobs = {job for job, _ in running}
        unreaped = {(one.job, one.rank): one for one in unreaped_ranks(fleet, now, running)}
        absent = {
            key: one for key, one in unreaped.items() if key not in self._seen or key[0] not in jobs
        } | absent
        self._missing.update(absent, wall)
        changed = False
        for key, one in absent.items():
            name = _name(key)
            if name not in self.alerts and self._is_sure(key, one, wall):
                self.alerts[name] = _alert(name, one, wall - self._missing.for_s(key, wall), running)
                changed = True
        left = {_name(key) for key in unreaped}
        for name, alert in self.alerts.items():
            collected = alert.severity == "warning" and name not in left
            if alert.state == "firing" and (collected or is_back(alert, self._listed, running)):
                self.alerts[name] = structs.replace(alert, state="resolved")
                changed = True
        return changed

    def _is_sure(self, key: RankKey, one: MissingRank, wall: float) -> bool:
        """Return True if the rank ended so long ago that its siblings are not about to end with it."""
        missing_s = self._missing.for_s(key, wall)
        silent_s = missing_s if one.logged_at is None else wall - one.logged_at
        return missing_s >= LOOKS_S and max(missing_s, silent_s) >= SIBLINGS_S


def _name(key: RankKey) -> str:
    return f"{VANISHED}@{key[0]}:{key[1]}:"


def _alert(name: str, one: MissingRank, since: float, running: Running) -> Alert:
    at = since if one.logged_at is None else one.logged_at
    others = any(job == one.job for job, _ in running)
    left = "other ranks of the job were still running" if others else "its parent has not reaped the process"
    proofs = [Proof("value", f"no running process of rank {one.rank}; {left}", since, node=one.node.name)]
    if one.last_line is not None:
        proofs.append(Proof("line", one.last_line, at, timed=False, node=one.node.name, file=one.file))
    text = f"{how_ended(one.node, one.job, one.rank)}; {left}"
    alert = vanished_alert(name, (one.job, one.rank), one.node.name, at, text, tuple(proofs))
    severity: Severity = "error" if has_failed(running, one) else "warning"
    return structs.replace(alert, timed=one.logged_at is not None, severity=severity)
