"""Lowers the severity of errors that their rank or job outlived. Pure.

Only nodes that may report on a rank count (`reporting_nodes`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import structs

from gpuwatch.diagnose.error_outcome.recovery_by_steps import (
    TrackIndex,
    ends_process,
    files_of_namesakes,
    job_went_on,
    lasts,
    recovery_of,
    softened,
)
from gpuwatch.diagnose.error_outcome.refutation import PORTS
from gpuwatch.diagnose.error_outcome.reporting_nodes import ReportingNodes, Weight
from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.failure_classes import EXITS, FINISHED


def with_outcomes(
    alerts: Iterable[Alert], tracks: Sequence[StepTrack], nodes: ReportingNodes | None = None
) -> list[Alert]:
    """Return the alerts; those that the rank, file or job outlived get a lower severity and `recovered_at`.

    Args:
        alerts: All alerts, with those about the end of a job.
        tracks: The steps that ranks logged.
        nodes: Which nodes may report on which ranks; None: all of them, in the logs of an ended job.
    """
    alerts = list(alerts)
    ends = [alert for alert in alerts if alert in FINISHED]
    deaths = [alert for alert in alerts if ends_process(alert)]
    index = TrackIndex(tracks)
    found = []
    for alert in alerts:
        known = index.of(alert) if alert in PORTS or not lasts(alert) else []
        own_log = any(track.file == alert.proof[0].file for track in known)
        lasting = lasts(alert) and not (own_log and alert in PORTS)
        apart = files_of_namesakes(alert, known)
        own = [track for track in known if track.file not in apart]
        later = [end for end in ends if end.proof[0].file not in apart]
        if lasting:
            found.append(alert)
        elif nodes is None:
            recovery = recovery_of(alert, own, later, deaths)
            found.append(alert if recovery is None else softened(alert, recovery))
        else:
            whole = job_went_on(alert, tracks, deaths) if not known else None
            found.append(softened(alert, whole) if whole else _by_node(alert, own, later, deaths, nodes))
    return found


def _by_node(
    alert: Alert,
    tracks: Sequence[StepTrack],
    ends: Sequence[Alert],
    deaths: Sequence[Alert],
    nodes: ReportingNodes,
) -> Alert:
    """Return the alert; with lower severity if each node that raised it shows a recovery.

    If only other nodes show one, it becomes a warning; an alert of `EXITS` is then unchanged.
    """
    own = nodes.own(alert)
    others: dict[Weight, tuple[list[StepTrack], list[Alert]]] = {"full": ([], []), "warning": ([], [])}
    for track in tracks:
        weight = nodes.weight(alert, track.node, track.rank)
        if track.node not in own and weight != "none":
            others[weight][0].append(track)
    for end in ends:
        weight = nodes.weight(alert, end.proof[0].node, end.rank)
        if end.proof[0].node not in own and weight != "none":
            others[weight][1].append(end)
    full_tracks, full_ends = others["full"]
    recoveries = [
        recovery_of(
            alert,
            [*(track for track in tracks if track.node == node), *full_tracks],
            [*(end for end in ends if end.proof[0].node == node), *full_ends],
            deaths,
        )
        for node in own
    ]
    known = [each for each in recoveries if each is not None]
    if known and len(known) == len(recoveries):
        return softened(alert, known[0])
    elsewhere = recovery_of(
        alert, [*full_tracks, *others["warning"][0]], [*full_ends, *others["warning"][1]], deaths
    )
    if elsewhere is None or alert in EXITS:
        return alert
    return structs.replace(softened(alert, elsewhere), severity="warning")
