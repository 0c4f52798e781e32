"""Judges the metrics of an ended job, from its logs, by the functions for running jobs."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from statistics import median

from msgspec import Struct, structs

from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.failure_classes import NAN_GRADIENTS
from gpuwatch.diagnose.straggler.alerts import CODE as SLOW_RANK
from gpuwatch.diagnose.straggler.own_time import STEP, slow_ranks
from gpuwatch.diagnose.training.first_nan import first_nans
from gpuwatch.diagnose.training.numerics import LASTING_STEPS, MIN_STEPS, numerics, spike
from gpuwatch.diagnose.training.symptom import Sign
from gpuwatch.diagnose.training.throughput import RECENT_STEPS, collapsed, collapsed_rate, pace, went_back
from gpuwatch.fleet.logs.logged_steps import LoggedStep
from gpuwatch.fleet.logs.progress import RankProgress, Value
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.rules.model import rule_ids
from gpuwatch.runs.scan.result import LogScan
from gpuwatch.runs.steps.step_series import StepPoint, StepSeries

MIN_TIMINGS = 3
SPIKE_WINDOW = 256
UNDATED_POINTS = 100
"""Number of steps without times that are needed to show more than a short disturbance."""
HALVED = 0.5
"""Share of each step that a rank must cost its job for the alert to be an error."""
END_BYTES = 2048
"""Number of bytes before the end of a log that count as its end."""


class LoggedWriter(Struct, frozen=True):
    """The metrics of one rank from one file, also in the form that the fleet uses."""

    file: LogScan
    series: StepSeries
    writer: RankProgress

    def point(self, step: int | None) -> StepPoint:
        """Return the logged point of a step; the last point if the step has none."""
        found = (point for point in self.series.points if point.step == step)
        return next(found, self.series.points[-1])


def progress_alerts(files: Iterable[LogScan]) -> list[Alert]:
    """Return alerts on the state of a job's metrics at its end: those of `TrainingWatch`, and slow ranks."""
    writers = [logged_writer(file, series) for file in files for series in file.series]
    if not writers:
        return []
    found = list(_of_speaker(max(writers, key=_weight)))
    by_writer = {id(each.writer): each for each in writers}
    first = first_nans(each.writer for each in writers).values()
    found += [_alert(by_writer[id(nan.writer)], nan.sign, of_one=nan.alone) for nan in first]
    return found + list(_slow_ranks(writers))


def with_lasting(alerts: Iterable[Alert], files: Iterable[LogScan]) -> list[Alert]:
    """Return the alerts; gradients that are NaN up to the end of a log become an error and possible cause.

    At least LASTING_STEPS lines must show it. Lines without a step (`{'loss': 0.0, 'grad_norm': nan}`
    beside a bar) cannot be judged as a series.
    """
    ends = {file.name: file.size for file in files if file.packing is None}
    return [
        structs.replace(alert, severity="error", role="root", fields={**alert.fields, "lasts": 1})
        if alert in NAN_GRADIENTS
        and alert.count >= LASTING_STEPS
        and ends.get(alert.proof[0].file or "", math.inf) - (alert.last_offset or 0) <= END_BYTES
        else alert
        for alert in alerts
    ]


def logged_writer(file: LogScan, series: StepSeries) -> LoggedWriter:
    """Return a series in the form for running jobs; its times are unix seconds."""
    rank = file.rank if series.rank is None else series.rank
    writer = RankProgress(series.host or file.node or "", file.name, rank, series.local_rank)
    writer.dialect, writer.per_epoch, writer.highest_scale = (
        series.dialect, series.per_epoch, series.highest_scale,
    )  # fmt: skip
    writer.steps = deque(_steps(series.points), maxlen=len(series.points))
    last = series.points[-1].at
    writer.stepped_at = -math.inf if last is None else last
    writer.values = {name: Value(value, writer.stepped_at) for name, value in series.values.items()}
    writer.timings = {
        name: deque(Value(seconds, writer.stepped_at) for seconds in values)
        for name, values in series.timings.items()
    }
    return LoggedWriter(file, series, writer)


def _steps(points: Sequence[StepPoint]) -> Iterator[LoggedStep]:
    before: StepPoint | None = None
    for point in points:
        took = point.step_time_s
        if took is None and before is not None and None not in (before.at, point.at):
            seconds, steps = (point.at or 0.0) - (before.at or 0.0), point.step - before.step
            took = seconds / steps if steps > 0 and seconds > 0 else None
        at = -math.inf if point.at is None else point.at
        yield LoggedStep(
            point.step, at, took, point.loss, point.grad_norm, point.tokens_per_s, point.samples_per_s
        )
        before = point


def _weight(each: LoggedWriter) -> tuple[int, int]:
    """Return the sort key of a series: the one with the most loss and gradient values represents the job."""
    judged = sum(point.loss is not None or point.grad_norm is not None for point in each.series.points)
    return judged, len(each.series.points)


def _of_speaker(speaker: LoggedWriter) -> Iterator[Alert]:
    codes = set()
    for sign in numerics(speaker.writer):
        codes.add(sign.code)
        yield _alert(speaker, sign)
    steps = list(speaker.writer.steps)
    slow = list(collapsed(steps))
    if not slow and all(step.took_s is None for step in steps):
        slow = list(collapsed_rate(steps))
    if not speaker.writer.per_epoch:
        slow += went_back(steps)
    of_speed = [sign for sign in pace(speaker.writer, ()) if not slow or sign.code != slow[0].code]
    for sign in (*slow, *of_speed):
        if _lasted(speaker.series.points, sign):
            yield _alert(speaker, sign, of_one=False)
    for at in _passed_spike(speaker.series.points):
        point = speaker.series.points[at]
        text = f"the loss was {point.loss:.4g} for a while"
        sign = Sign(rule_ids.NUM_LOSS_SPIKE, "info", text, step=point.step)
        if sign.code not in codes:
            yield _alert(speaker, sign)


def _lasted(points: Sequence[StepPoint], sign: Sign) -> bool:
    """Return True if the steps that show a sign span at least its hold time."""
    if not sign.hold_s:
        return True
    if all(point.at is None for point in points):
        return len(points) >= UNDATED_POINTS
    times = [point.at for point in points[-RECENT_STEPS:] if point.at is not None]
    return len(times) > 1 and times[-1] - times[0] >= sign.hold_s


def _passed_spike(points: Sequence[StepPoint]) -> Iterator[int]:
    """Yield the index of the first point of the first loss spike, if any."""
    losses = [(n, p.loss) for n, p in enumerate(points) if p.loss is not None and math.isfinite(p.loss)]
    for at in range(MIN_STEPS + 2, len(losses)):
        if not min(losses[at - 1][1], losses[at][1]) > losses[at - 2][1] > 0:
            continue
        recent = [loss for _, loss in losses[max(0, at - SPIKE_WINDOW) : at + 1]]
        if next(spike(recent), None) is not None:
            yield losses[at - 1][0]
            return


def _alert(of: LoggedWriter, sign: Sign, *, of_one: bool = True) -> Alert:
    """Return the alert for a sign; a warning becomes an error if the sign lasted to the end of the log."""
    point = of.point(sign.step)
    at = point.at if point.at is not None else of.file.last_time or of.file.mtime
    fields: dict[str, str | int | float] = {} if sign.step is None else {"step": sign.step}
    if sign.lasts:
        fields["lasts"] = 1
    node = of.writer.node or None
    proof = Proof(
        "line", sign.text, at, point.at is not None, of.file.node, of.file.name, point.offset, (sign.text,)
    )
    return Alert(
        id=f"{sign.code}@{of.file.name}:{of.writer.rank}",
        code=sign.code,
        severity="error" if sign.lasts and sign.severity == "warning" else sign.severity,
        title=sign.title,
        text=sign.text,
        proof=(proof,),
        role="root" if sign.lasts else sign.role,
        node=node if of_one else None,
        rank=of.writer.rank if of_one else None,
        first=at,
        last=at,
        timed=point.at is not None,
        fields=fields,
    )


def _slow_ranks(writers: Iterable[LoggedWriter]) -> Iterator[Alert]:
    """Yield an alert for each rank whose own timers stand out among its peers."""
    times: dict[int, dict[str, float]] = {}
    by_rank: dict[int, LoggedWriter] = {}
    for each in writers:
        own = _medians(each.writer)
        if each.writer.rank is not None and own:
            times[each.writer.rank], by_rank[each.writer.rank] = own, each
    named: set[int] = set()
    found = slow_ranks(times, Thresholds().peer_time_pct)
    for unlike in sorted(found, key=lambda each: -(each.cost or 0.0)):
        if unlike.rank in named:
            continue
        named.add(unlike.rank)
        halved = (unlike.cost or 0.0) >= HALVED
        of = by_rank[unlike.rank]
        text = f"one of {unlike.peers + 1} ranks {unlike.what}"
        point = of.point(None)
        at = point.at if point.at is not None else of.file.mtime
        proof = Proof(
            "line", unlike.evidence, at, point.at is not None, of.file.node, of.file.name, point.offset
        )
        yield Alert(
            id=f"{SLOW_RANK}@{unlike.rank}", code=SLOW_RANK, severity="error" if halved else "warning",
            title="Straggler", text=text, proof=(proof,), role="root" if halved else "hint",
            node=of.writer.node or None, rank=unlike.rank,
            first=at, last=at, timed=point.at is not None,
        )  # fmt: skip


def _medians(writer: RankProgress) -> dict[str, float]:
    found = {
        name: median(value.value for value in values)
        for name, values in writer.timings.items()
        if len(values) >= MIN_TIMINGS
    }
    if "step_time_s" in writer.values:
        steps = [took for took in writer.step_times(RECENT_STEPS) if math.isfinite(took)]
        if len(steps) >= MIN_TIMINGS:
            found[STEP] = median(steps)
    return found
