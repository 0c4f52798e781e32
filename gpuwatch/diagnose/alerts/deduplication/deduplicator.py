"""Merge alerts that report the same event: several lines of one failure, copies, driver events.

Alerts are put into buckets by subject (`subject_of`) and merged bucket by bucket, so that one more line costs
little. In a merged alert the most specific line leads; the id is that of the earliest one.

Example: rank 3 logs `CUDA error: out of memory` at 10:00:00 and once more at 10:00:01, and the launcher's log
has a copy of the first line with the rank in front. All three have one key (class, rank, job), their times
are less than `SAME_S` apart, and their marks (such as the GPU) do not differ: `joined` returns one alert,
dated 10:00:00, with count 2 (repeats within a file) and a proof for each wording and file.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from gpuwatch.diagnose.alerts.deduplication.occurrence import Attempt, Occurrence
from gpuwatch.diagnose.alerts.deduplication.same_event import Key, marks_of, subject_of
from gpuwatch.diagnose.alerts.deduplication.unexplained import (
    without_explained,
    without_general,
    without_wrapped,
)
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import NEW_ATTEMPT
from gpuwatch.diagnose.model.timing import ATTEMPT_S, Resumed, attempt_of, batches, number_at

LOOKED_BACK = 64
"""Number of newest occurrences in a bucket that a new alert is compared with."""


def joined(alerts: Iterable[Alert]) -> list[Alert]:
    """Return the alerts by time, those of one event merged into one that keeps the proofs of all.

    Unknown error lines and generic exceptions that a more specific alert explains are left out.
    """
    joiner = Deduplicator()
    for alert in alerts:
        joiner.put(alert)
    return joiner.joined()


class Deduplicator:
    """Stores alerts and merges those of one event; only buckets that changed are merged again."""

    def __init__(self) -> None:
        self._keys: dict[str, Key] = {}
        self._buckets: dict[Key, dict[str, Alert]] = {}
        self._folded: dict[Key, list[Alert]] = {}
        self._dirty: set[Key] = set()
        self._restarts: dict[str, float] = {}
        self._ends: list[float] = []
        self._resumed: Resumed = {}

    def put(self, alert: Alert) -> None:
        """Add an alert, or replace it by its newer state."""
        key = subject_of(alert)
        if self._keys.get(alert.id, key) != key:
            self.drop(alert.id)
        bucket = self._buckets.setdefault(key, {})
        if bucket.get(alert.id) == alert:
            return
        self._keys[alert.id] = key
        bucket[alert.id] = alert
        self._dirty.add(key)
        if alert in NEW_ATTEMPT and self._restarts.get(alert.id) != alert.first:
            self._restarts[alert.id] = alert.first
            self._ends = batches(self._restarts.values(), ATTEMPT_S)
            self._dirty.update(self._buckets)

    def take_resumed(self, resumed: Resumed) -> None:
        """Store when jobs resumed training, so that an error before and one after a resume stay separate."""
        self._resumed = resumed
        self._dirty.update(self._buckets)

    def drop(self, name: str) -> None:
        """Remove the alert with the id `name`; an unknown id is ignored."""
        key = self._keys.pop(name, None)
        if key is None:
            return
        del self._buckets[key][name]
        self._dirty.add(key)

    @property
    def behind(self) -> bool:
        """Return True if a changed bucket is not merged yet."""
        return bool(self._dirty)

    def fold(self, most: int | None = None) -> None:
        """Merge the alerts of up to `most` changed buckets; None: of all of them."""
        for key in list(islice(self._dirty, most)):
            self._dirty.discard(key)
            if self._buckets[key]:
                self._folded[key] = self._fold(list(self._buckets[key].values()))
            else:
                del self._buckets[key]
                self._folded.pop(key, None)

    def joined(self) -> list[Alert]:
        """Merge all changed buckets; return the merged alerts by time, without those that others explain."""
        self.fold()
        alerts = without_explained(
            without_wrapped(without_general([alert for folded in self._folded.values() for alert in folded]))
        )
        return sorted(alerts, key=lambda alert: (alert.first, alert.id))

    def _fold(self, alerts: list[Alert]) -> list[Alert]:
        if len(alerts) == 1:
            return alerts
        occurrences: list[Occurrence] = []
        for alert in sorted(alerts, key=lambda alert: (alert.first, alert.proof[0].offset or 0, alert.id)):
            marks, attempt = marks_of(alert), self._attempt(alert)
            for known in occurrences[: -LOOKED_BACK - 1 : -1]:
                if known.takes(alert, marks, attempt):
                    break
            else:
                occurrences.append(Occurrence(alert, marks, attempt))
        return [known.alert() for known in occurrences]

    def _attempt(self, alert: Alert) -> Attempt:
        again = None if alert.job is None else number_at(alert, self._resumed.get(alert.job, ()))
        return attempt_of(alert, self._ends) if self._ends else 0, again
