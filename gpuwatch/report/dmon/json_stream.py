"""Turns new facts of a session into JSON rows: GPU samples, training steps, jobs, alerts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, TypeAlias

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.logged_steps import LoggedStep
from gpuwatch.fleet.logs.progress import RankProgress, WriterKey
from gpuwatch.plain import plain
from gpuwatch.report.once.jobs import finite, training_facts

Row: TypeAlias = dict[str, Any]
MAX_ALERTS_KEPT = 100_000


class JsonStream:
    """Yields each new fact of a session once. Call `rows` after every poll."""

    def __init__(self, *, with_jobs: bool = True) -> None:
        """Create a stream that has yielded nothing yet.

        `with_jobs`: also yield the metrics of jobs, which cost as much as all other rows together.
        """
        self._with_jobs = with_jobs
        self._sampled: dict[tuple[str, str], float] = {}
        self._stepped: dict[WriterKey, float] = {}
        self._jobs: dict[str | None, tuple[int | None, int]] = {}
        self._jobs_due = -math.inf
        self._alerts: dict[str, tuple[str, str, int]] = {}

    def rows(self, fleet: Fleet, book: AlertBook, now: float, time: float) -> Iterator[Row]:
        """Yield the new rows. `now`: our monotonic clock, `time`: the same moment in unix seconds."""
        for gpu in fleet.gpus():
            key = (gpu.node, gpu.info.uuid)
            if gpu.fast is None or gpu.fast_at is None or self._sampled.get(key) == gpu.fast_at:
                continue
            self._sampled[key] = gpu.fast_at
            values = gpu.fast
            yield {
                "kind": "gpu",
                "time": time - (now - gpu.fast_at),
                "node": gpu.node,
                "index": gpu.info.index,
                "uuid": gpu.info.uuid,
                "name": gpu.info.name,
                "state": gpu.state,
                "utilization_pct": values.utilization_pct,
                "memory_used_bytes": values.memory_used_bytes,
                "memory_total_bytes": values.memory_total_bytes,
                "temperature_c": values.temperature_c,
                "power_w": values.power_w,
                "sm_clock_mhz": values.sm_clock_mhz,
                "throttle": values.throttle,
            }
        for writer, progress in list(fleet.progress.writers.items()):
            for step in self._new_steps(writer, progress):
                yield step_row(progress, step, time - (now - step.at))
        yield from self._job_rows(fleet, now, time)
        yield from self._alert_rows(book, time)

    def _job_rows(self, fleet: Fleet, now: float, time: float) -> Iterator[Row]:
        """Yield a row for each job whose step or number of live ranks changed, at most once per interval."""
        if not self._with_jobs or now < self._jobs_due:
            return
        self._jobs_due = now + fleet.plan.interval_s
        for row in training_facts(fleet, now, time):
            seen = (row["step"], row["ranks_alive"])
            if self._jobs.get(row["job"]) != seen:
                self._jobs[row["job"]] = seen
                yield {"kind": "job", "time": time, **row}

    def _new_steps(self, writer: WriterKey, progress: RankProgress) -> list[LoggedStep]:
        after = self._stepped.get(writer, -math.inf)
        new = [step for step in progress.steps if step.at > after and math.isfinite(step.at)]
        if new:
            self._stepped[writer] = new[-1].at
        return new

    def _alert_rows(self, book: AlertBook, time: float) -> Iterator[Row]:
        for alert in list(book.alerts.values()):
            seen = (alert.severity, alert.state, alert.count)
            if self._alerts.get(alert.id) == seen:
                continue
            if len(self._alerts) >= MAX_ALERTS_KEPT:
                self._alerts.clear()
            self._alerts[alert.id] = seen
            yield {
                "kind": "alert",
                "time": time,
                "id": alert.id,
                "code": alert.code,
                "severity": alert.severity,
                "state": alert.state,
                "title": plain(alert.title),
                "text": plain(alert.text),
                "node": alert.node,
                "gpu": alert.gpu,
                "rank": alert.rank,
                "job": alert.job,
                "first": alert.first,
                "last": alert.last,
                "count": alert.count,
            }


EMPTY_STEP: Row = dict.fromkeys((
    "kind", "time", "node", "file", "job", "rank", "step", "total_steps", "epoch", "loss", "learning_rate",
    "grad_norm", "step_time_s", "samples_per_s", "tokens_per_s", "mfu", "communication_s",
    "eta_s",
))  # fmt: skip
"""The keys of a step row."""


def step_row(progress: RankProgress, step: LoggedStep, time: float) -> Row:
    """Return a step with the values of its line; other metrics of its writer as of now. NaN becomes None.

    `time`: unix seconds of the step.
    """
    total = progress.value("total_steps")
    return {
        "kind": "step",
        "time": time,
        "node": progress.node,
        "file": plain(progress.file),
        "job": progress.job,
        "rank": progress.rank,
        "step": step.step,
        "total_steps": None if total is None else int(total),
        "epoch": finite(progress.value("epoch")),
        "loss": finite(step.loss),
        "learning_rate": finite(progress.value("lr")),
        "grad_norm": finite(step.grad_norm),
        "step_time_s": finite(step.took_s),
        "samples_per_s": finite(step.samples_per_s),
        "tokens_per_s": finite(step.tokens_per_s),
        "mfu": finite(progress.value("mfu")),
        "communication_s": finite(step.communication_s),
        "eta_s": finite(progress.value("eta_s")),
    }
