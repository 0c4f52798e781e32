"""Repeated errors: those after which the rank logged steps are kept apart from the last one."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from gpuwatch.diagnose.error_outcome.recovery_by_steps import Recovery, may_recover, softened
from gpuwatch.diagnose.error_outcome.step_track import Mark, StepTrack
from gpuwatch.diagnose.model.alert import Alert


def outlived_repeats(alerts: Sequence[Alert], tracks: Iterable[StepTrack]) -> list[Alert]:
    """Return the alerts; an error after which the rank logged steps before it came again is softened.

    One step is enough: a buffer cannot have moved it there, because buffered output comes below the last
    exception.
    """
    marks = _by_file(tracks)
    lasts: dict[object, int] = {}
    for alert in alerts:
        who = _speaker(alert)
        lasts[who] = max(lasts.get(who, 0), alert.proof[0].offset or 0)
    found = []
    for alert in alerts:
        later = _between(alert, lasts[_speaker(alert)], marks) if _is_repeated(alert) else []
        recovery = Recovery(later[0].at, later[0].step, finished=False) if later else None
        found.append(alert if recovery is None else softened(alert, recovery))
    return found


def _is_repeated(alert: Alert) -> bool:
    return may_recover(alert) and not alert.code.startswith("num.")


def _speaker(alert: Alert) -> object:
    proof = alert.proof[0]
    return alert.code, alert.rank, alert.job, proof.node, proof.file


def _by_file(tracks: Iterable[StepTrack]) -> dict[str, list[StepTrack]]:
    found: dict[str, list[StepTrack]] = defaultdict(list)
    for track in tracks:
        found[track.file].append(track)
    return found


def _between(alert: Alert, last: int, tracks: Mapping[str, Sequence[StepTrack]]) -> Sequence[Mark]:
    """Return the steps of the rank between an alert and offset `last` of its file.

    Empty if they do not advance.
    """
    proof = alert.proof[0]
    low = max(proof.offset or 0, alert.last_offset or 0)
    if low >= last:
        return []
    for track in tracks.get(proof.file or "", ()):
        if not (track.alone if None in (alert.rank, track.rank) else alert.rank == track.rank):
            continue
        begin = bisect_right(track.marks, low, key=_place)
        steps = track.marks[begin : bisect_left(track.marks, last, key=_place)]
        before = [mark.step for mark in track.marks[max(0, begin - 1) : begin]]
        if steps and all(steps[-1].step > step for step in before):
            return steps
    return []


def _place(mark: Mark) -> int:
    return mark.offset or 0
