"""Number the attempts of a job: the one that an alert is of. Pure.

Example: torchrun restarts a job at 10:00:25, when its node's ranks have ended; another node's launcher
reports at 10:00:33 that rank 2 ended. Rank 2 logged a lost connection into `attempt_0/2/stderr.log` at
10:00:22, so the end is of attempt 0 too. A job that is started again by hand has a new folder, whose attempts
count from 0.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import EXITS
from gpuwatch.diagnose.model.timing import ATTEMPT_S, attempt_of, attempt_of_path, onset, run_of_path

ENDS_AFTER_S = 60.0
"""A rank whose peers failed ends at most this long after its own last error (seconds)."""


class AttemptNumbers:
    """The attempts of one job, from 0; `of` returns that of an alert.

    `certain`: alerts of known time; `ends`: when the attempts ended (unix seconds), sorted.
    """

    def __init__(self, certain: Sequence[Alert], ends: list[float]) -> None:
        self._ends = ends
        self._earlier = _earlier_attempts(certain, ends)
        self._logged: dict[int, list[tuple[float, int]]] = defaultdict(list)
        """Rank -> times (unix seconds) of its errors in folders of attempts, and the attempts' numbers."""
        for alert in certain:
            if alert.rank is not None and attempt_of_path(alert.proof[0].file or "") is not None:
                self._logged[alert.rank].append((alert.first, self.of(alert)))

    def of(self, alert: Alert) -> int:
        """Return the number of an alert's attempt: by its folder, its ended rank, or time."""
        file = alert.proof[0].file or ""
        if attempt_of_path(file) is not None:
            return attempt_of(alert, self._ends) + self._earlier.get(run_of_path(file), 0)
        if alert in EXITS and alert.rank is not None:
            own = [each for each in self._logged[alert.rank] if 0 <= alert.first - each[0] <= ENDS_AFTER_S]
            if own:
                return max(own)[1]
        return attempt_of(alert, self._ends)


def _earlier_attempts(alerts: Sequence[Alert], ends: list[float]) -> dict[str, int]:
    """Return run (`run_of_path`) -> what to add to the numbers of its attempts, if it is not 0.

    A run counts its attempts from 0. The job has ended more attempts before the run's first dated line than
    that line's number says; the difference is added.

    A run is taken as later only if its first dated line is more than `ATTEMPT_S` later: a line may be read
    late.
    """
    first: dict[str, tuple[int, float]] = {}
    for alert in alerts:
        file = alert.proof[0].file or ""
        number = attempt_of_path(file)
        if number is not None and alert.timed:
            run = run_of_path(file)
            first[run] = min((number, onset(alert)), first.get(run, (number, math.inf)))
    found = {run: bisect_left(ends, at - ATTEMPT_S) - number for run, (number, at) in first.items()}
    return {run: count for run, count in found.items() if count > 0}
