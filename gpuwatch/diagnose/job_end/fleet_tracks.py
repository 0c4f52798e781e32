"""Step tracks of running jobs, from the fleet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable

from gpuwatch.diagnose.error_outcome.step_track import Mark, StepTrack
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.logged_steps import LoggedStep
from gpuwatch.fleet.logs.progress import RankProgress

MAX_WRITERS = 256
KEPT_STEPS = 200
"""Most steps that are kept per rank, the newest ones; those after an error are among them."""


def tracks_for(alerts: Collection[Alert], fleet: Fleet, now: float, wall: float) -> list[StepTrack]:
    """Return the logged steps (one `StepTrack` per rank and file) of the ranks and files of these alerts.

    For an alert without a rank, the steps of its job are added, unless it has more than `MAX_WRITERS` logs.

    Args:
        alerts: Alerts about ranks or from log files.
        fleet: All that is known now.
        now: Monotonic seconds, the clock of the fleet's steps.
        wall: Unix seconds at the same moment.
    """
    wanted = {alert.rank for alert in alerts if alert.rank is not None}
    jobs = {alert.job for alert in alerts if alert.rank is None and alert.job is not None}
    files = {proof.file for alert in alerts for proof in alert.proof[:1] if proof.file is not None}
    writers = [each for each in fleet.progress.writers.values() if each.steps or each.past]
    shared = _shared_files(writers)
    sizes = Counter(each.job for each in writers)
    jobs = {job for job in jobs if sizes[job] <= MAX_WRITERS}
    return [
        _track(each, wall - now, alone=(each.node, each.file) not in shared)
        for each in writers
        if each.rank in wanted or each.file in files or each.job in jobs
    ]


def _track(writer: RankProgress, offset_s: float, *, alone: bool) -> StepTrack:
    """Return a track of the newest `KEPT_STEPS` steps of one writer.

    If the last step has no offset, it gets that of the file's newest line. `offset_s`: unix seconds minus the
    clock of the steps. `alone`: no other writer shares the file.
    """
    newest = writer.curve()[-KEPT_STEPS:]
    marks = [Mark(step.step, _wall(step, offset_s), step.offset, _is_finite(step)) for step in newest]
    if marks[-1].offset is None:
        marks[-1] = marks[-1]._replace(offset=writer.offset)
    total = writer.value("total_steps")
    return StepTrack(
        writer.node,
        writer.file,
        writer.rank,
        writer.job,
        marks,
        None if total is None else int(total),
        alone,
    )


def _wall(step: LoggedStep, offset_s: float) -> float | None:
    return step.at + offset_s if math.isfinite(step.at) else None


def _is_finite(step: LoggedStep) -> bool:
    return all(value is None or math.isfinite(value) for value in (step.loss, step.grad_norm))


def _shared_files(writers: Iterable[RankProgress]) -> set[tuple[str, str]]:
    """Return (node, file) of logs in which several ranks log steps."""
    ranks: dict[tuple[str, str], set[int | None]] = {}
    for writer in writers:
        ranks.setdefault((writer.node, writer.file), set()).add(writer.rank)
    return {key for key, found in ranks.items() if len(found) > 1}
