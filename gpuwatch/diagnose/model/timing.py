"""Times of events and their bounds: the start of a hang, and limits for lines without a time.

Example: of three alerts from one file the first is stamped 10:00:00, the second has no time, the third is
stamped 10:00:30. `bounds` gives the second one (10:00:00, 10:00:30); that is within `PRECISE_WITHIN_S`, so
`sure` is True, and the line may decide which of two failures came first.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.failure_classes import EXITS, NEW_ATTEMPT, TIMEOUTS, of_kinds
from gpuwatch.diagnose.model.text import waited_s

WAITED = TIMEOUTS | of_kinds("gives_wait")
"""Classes that are logged after a wait whose length the line gives."""
PRECISE_WITHIN_S = 60.0
"""Largest distance (seconds) of two timed lines of a file for a line between them to count as timed."""

AFTER_S = 7200.0
"""Seconds for which lines may follow the last timestamp of a file: some logs have times only at first."""

ATTEMPT_S = 60.0
"""Seconds within which agents of different nodes report the end of one attempt."""
LAST_OUTPUT_S = 5.0
"""Seconds for which an ended attempt may still print."""
APART_S = 1.0
"""Seconds by which start and log times may be early.

/proc counts from a boot time in whole seconds, and most log times have whole seconds.
"""
_ATTEMPT = re.compile(r"(?:^|/)(?:attempt|try|retry)[_-]?(\d{1,6})(?=/)")


class Resumption(NamedTuple):
    """An attempt of a job: when it began, and when it had proved that it trains."""

    began: float
    """Start of the attempt's first rank (unix seconds).

    If no process was seen, the end of the attempt before.
    """
    proved: float = math.inf
    """When the attempt logged the step that proves that it trains (unix seconds); infinity: it did not."""

    @property
    def trained(self) -> bool:
        """Return True if the attempt logged the steps that prove that it trains."""
        return self.proved < math.inf


Resumed: TypeAlias = Mapping[str, Sequence[Resumption]]
"""Job -> its resumptions by time. The first attempt of a job may be among them."""


def onset(alert: Alert) -> float:
    """Return when the event began (unix seconds); for a timeout, when its operation began."""
    if alert not in WAITED:
        return alert.first
    waited = waited_s(alert.fields)
    for name in ("stuck_s", "timeout_s"):
        seconds = alert.fields.get(name)
        if waited is None and isinstance(seconds, (int, float)):
            waited = float(seconds)
    return alert.first - (waited or 0.0)


def bounds(alerts: Sequence[Alert]) -> dict[str, tuple[float, float]]:
    """Return alert id -> earliest and latest possible time (unix seconds).

    Lines of one file are in the order in which they were written, so timed lines bound the untimed ones
    between them.
    """
    by_file: dict[tuple[str | None, str | None], list[Alert]] = defaultdict(list)
    for alert in alerts:
        if alert.proof[0].offset is not None:
            by_file[alert.proof[0].node, alert.proof[0].file].append(alert)
    found = {alert.id: (alert.first, alert.first) for alert in alerts if alert.timed}
    for alert in alerts:
        if not alert.timed:
            found[alert.id] = (-math.inf, alert.first)
            if alert.bound == "after" and alert.not_before is not None:
                found[alert.id] = (alert.not_before, alert.first + AFTER_S)
    for lines in by_file.values():
        if any(not each.timed for each in lines):
            _bound_file(sorted(lines, key=lambda each: each.proof[0].offset or 0), found)
    _bound_by_ends(alerts, found)
    return found


def _bound_by_ends(alerts: Sequence[Alert], found: dict[str, tuple[float, float]]) -> None:
    """Limit the times of a rank's lines by its reported end, after which it logs nothing."""
    ended: dict[int, dict[str | None, float]] = defaultdict(dict)
    for alert in alerts:
        if alert.timed and alert.rank is not None and alert in EXITS:
            jobs = ended[alert.rank]
            jobs[alert.job] = min(alert.first, jobs.get(alert.job, alert.first))
    for alert in alerts:
        if alert.timed or alert.rank not in ended or alert in EXITS:
            continue
        ends = [at for job, at in ended[alert.rank].items() if alert.job is None or job in (None, alert.job)]
        if ends:
            low, high = found[alert.id]
            found[alert.id] = (low, max(low, min(high, *ends)))


def _bound_file(lines: list[Alert], found: dict[str, tuple[float, float]]) -> None:
    low = -math.inf
    for each in lines:
        if each.timed:
            low = each.first
        else:
            found[each.id] = (low, found[each.id][1])
    high = math.inf
    for each in reversed(lines):
        if each.timed:
            high = each.first
        else:
            low, own = found[each.id]
            found[each.id] = (min(low, high), min(own, high))


def sure(bound: tuple[float, float]) -> bool:
    """Return True if a time bound is narrow enough (`PRECISE_WITHIN_S`) to decide an order."""
    return bound[1] - bound[0] <= PRECISE_WITHIN_S


def attempts_end(alerts: Iterable[Alert]) -> list[float]:
    """Return when the attempts of a job ended (unix seconds), by its launchers' reports and log folders."""
    reported: list[float] = []
    folders: dict[int, float] = {}
    for alert in alerts:
        if alert in NEW_ATTEMPT:
            reported.append(alert.first)
        number = attempt_of_path(alert.proof[0].file or "")
        if number is not None:
            folders[number] = max(alert.first, folders.get(number, alert.first))
    last = max(folders, default=0)
    # copied files have one time, which shows no order
    reported += [
        ended for number, ended in folders.items() if number < last and ended < folders[last] - LAST_OUTPUT_S
    ]
    return batches(reported, ATTEMPT_S)


def attempt_of_path(file: str) -> int | None:
    """Return the number in `attempt_1/` or `try2/`, a launcher's folder of an attempt.

    None: no such folder.
    """
    found = _ATTEMPT.search(file)
    return None if found is None else int(found[1])


def run_of_path(file: str) -> str:
    """Return the path above the attempt's folder; the whole path if there is no such folder."""
    found = _ATTEMPT.search(file)
    return file if found is None else file[: found.start()]


def attempt_of(alert: Alert, ends: list[float]) -> int:
    """Return the number (from 0) of the attempt in which an alert began: by its file's folder, else by time.

    `ends`: when the attempts ended (unix seconds), sorted; `LAST_OUTPUT_S` later it is still that attempt.
    """
    number = attempt_of_path(alert.proof[0].file or "")
    return number if number is not None else bisect_left(ends, onset(alert) - LAST_OUTPUT_S)


def batches(moments: Iterable[float], within_s: float) -> list[float]:
    """Return the last time of each run of times that are at most `within_s` apart."""
    ends: list[float] = []
    for moment in sorted(moments):
        if ends and moment - ends[-1] <= within_s:
            ends[-1] = moment
        else:
            ends.append(moment)
    return ends


def with_resumptions(
    ends: Sequence[float], resumed: Iterable[Resumption], alerts: Iterable[Alert]
) -> list[float]:
    """Return the ends of attempts (for `attempt_of`), with those that only later steps show.

    Args:
        ends: When attempts ended, by launchers and log folders (unix seconds).
        resumed: The resumptions of the job.
        alerts: The alerts of the job; an attempt that followed no failure separates nothing.
    """
    failed = min(
        (alert.first for alert in alerts if alert.severity in GRAVE and not alert.kernel), default=math.inf
    )
    more = [
        each.proved - LAST_OUTPUT_S
        for each in resumed
        if each.trained and failed <= each.began + APART_S
        if not any(each.began - ATTEMPT_S <= end <= each.proved for end in ends)
    ]
    return sorted([*ends, *more])


def number_at(alert: Alert, resumed: Sequence[Resumption]) -> int:
    """Return how many attempts of its job had trained when an alert began."""
    return sum(each.proved < onset(alert) for each in resumed)
