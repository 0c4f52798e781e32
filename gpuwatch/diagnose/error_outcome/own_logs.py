"""Checks lines that name another rank than their log's own rank against that rank's own log.

Pure functions over the alerts and steps of ended jobs. A log that several ranks write is trusted, and so is a
line about a rank whose own log is missing or ends earlier.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath

from msgspec import structs

from gpuwatch.diagnose.error_outcome.recovery_by_steps import LEAVING_S
from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import CANCELLED_ON, of_kinds

SCHEDULED = of_kinds("daemon_report")
"""Classes that Slurm's daemons and launcher report about a node, in any log."""
SAME_EVENT_S = 60.0
"""An error of the same class this close (seconds) in the rank's own log confirms the line."""


def with_own_logs(
    alerts: Iterable[Alert], owners: Mapping[str, int], tracks: Sequence[StepTrack]
) -> list[Alert]:
    """Return the alerts; a line that names a rank whose own log contradicts it goes to the rank of the file.

    A line that names a node whose ranks step on is marked as refuted; one about a pod goes to its rank.

    Args:
        alerts: As the lines report them.
        owners: File -> its rank, of the logs that belong to one rank alone.
        tracks: The steps that ranks logged.
    """
    writers = {track.file: track.rank for track in tracks if track.rank is not None} | dict(owners)
    alerts = [_of_pod(alert, writers) for alert in alerts]
    shared = {track.file for track in tracks if track.rank not in (None, owners.get(track.file))}
    weighed = [_weighed(alert, alerts, owners, tracks, shared) for alert in alerts]
    return [_weighed_by_node(alert, tracks) for alert in weighed]


def _of_pod(alert: Alert, writers: Mapping[str, int]) -> Alert:
    """Return the alert; one about a pod gets the rank whose log is named after the pod.

    `writers`: file -> rank.
    """
    pod = alert.fields.get("pod")
    if alert.rank is not None or not pod:
        return alert
    ranks = {rank for file, rank in writers.items() if PurePath(file).stem == pod}
    return structs.replace(alert, rank=ranks.pop(), rank_from="path") if len(ranks) == 1 else alert


def _weighed_by_node(alert: Alert, tracks: Iterable[StepTrack]) -> Alert:
    """Return the alert; marked as refuted if it names a node whose own ranks logged steps after it."""
    elsewhere = (
        alert.node not in (None, *(proof.node for proof in alert.proof)) and alert.rank_from == "field"
    )
    if not (alert in SCHEDULED or elsewhere) or alert.refuted or not alert.timed or alert.kernel:
        return alert
    named = alert.fields.get(CANCELLED_ON) or alert.node
    files = {proof.file for proof in alert.proof}
    for track in tracks:
        after = [mark.step for mark in track.marks if (mark.at or 0.0) > alert.last + LEAVING_S]
        if named is not None and track.node == named and track.file not in files and after:
            who = "a rank" if track.rank is None else f"rank {track.rank}"
            doubt = f"the line names {named}, where {who} logs steps after it, up to step {after[-1]}"
            text = f"{alert.text}; {doubt}"
            return structs.replace(alert, doubt=doubt, refuted=True, text=text)
    return alert


def _weighed(
    alert: Alert,
    alerts: Sequence[Alert],
    owners: Mapping[str, int],
    tracks: Sequence[StepTrack],
    shared: set[str],
) -> Alert:
    file = alert.proof[0].file if alert.proof else None
    if file is None or file in shared or alert.kernel or alert.rank_from not in ("line", "index"):
        return alert
    owner = owners.get(file)
    if None in (owner, alert.rank) or owner == alert.rank:
        return alert
    here = next((track for track in tracks if track.file == file and track.marks), None)
    own = _own_tracks(alert, file, owners, tracks)
    if here is None or _confirmed(alert, alerts, {track.file for track in own}):
        return alert
    if not any(_steps_on(alert, track, here) for track in own):
        return alert
    doubt = (
        f"the line is in the log of rank {owner} and names rank {alert.rank}, whose own log continues"
        " and does not contain it"
    )
    return structs.replace(
        alert, rank=owner, rank_from="path", node=alert.proof[0].node, gpu=None, doubt=doubt, refuted=True,
        text=f"{alert.text}; {doubt}",
    )  # fmt: skip


def _own_tracks(
    alert: Alert, file: str, owners: Mapping[str, int], tracks: Iterable[StepTrack]
) -> list[StepTrack]:
    """Return the tracks from the logs that only the alert's rank writes.

    If some of these logs are in the folder of `file`, return only their tracks.
    """
    found = [track for track in tracks if owners.get(track.file) == alert.rank == track.rank and track.marks]
    folder = PurePath(file).parent
    return [track for track in found if PurePath(track.file).parent == folder] or found


def _confirmed(alert: Alert, alerts: Iterable[Alert], own: set[str]) -> bool:
    """Return True if one of the files `own` reports the same error at about the same time."""
    return any(
        proof.file in own
        for each in alerts
        if each.code == alert.code
        and (not (each.timed and alert.timed) or abs(each.first - alert.first) <= SAME_EVENT_S)
        for proof in each.proof
    )


def _steps_on(alert: Alert, own: StepTrack, here: StepTrack) -> bool:
    """Return True if a rank logged a step after a line and was not restarted in between.

    Without times, the step numbers decide: no step follows the line in its log, and the rank's own log goes
    at least two steps further.
    """
    if alert.timed and all(mark.at is not None for mark in own.marks):
        after = [mark.step for mark in own.marks if (mark.at or 0.0) > alert.last + LEAVING_S]
        before = [mark.step for mark in own.marks if (mark.at or 0.0) <= alert.last]
        return bool(after) and after[0] > max(before, default=-1)
    offset = max(alert.proof[0].offset or 0, alert.last_offset or 0)
    last = here.marks[-1]
    return (last.offset or 0) < offset and own.marks[-1].step >= last.step + 2
