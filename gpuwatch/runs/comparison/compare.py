"""Compares single-GPU with multi-GPU sessions: averages, speed-up, efficiency, differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from msgspec import Struct, field

from gpuwatch.runs.comparison.configuration import Difference, configuration_differences
from gpuwatch.runs.sessions.model.session import TrainingSession
from gpuwatch.runs.sessions.model.summary import SessionSummary

TIMED = {"gpuwatch run": "the command", "gpuwatch.telemetry": "the training"}
"""Writer of a session -> what the session's duration covers; for a command also imports and model loading."""


class SessionGroup(Struct, frozen=True):
    """The averages over sessions with one worker count; None: no session has the value."""

    sessions: tuple[TrainingSession, ...]
    steps_per_s: float | None = None
    samples_per_s: float | None = None
    steady_steps_per_s: float | None = None
    steady_samples_per_s: float | None = None
    duration_s: float | None = None
    final_loss: float | None = None
    utilization_avg_pct: float | None = None
    memory_avg_pct: float | None = None

    @property
    def counts(self) -> list[int]:
        """The worker counts in the group, sorted."""
        return sorted({each.summary.workers for each in self.sessions if each.summary.workers})


class ScalingPoint(Struct, frozen=True):
    """The sessions with one worker count, relative to those with the lowest count."""

    workers: int
    group: SessionGroup
    baseline_workers: int
    speedup: float | None
    """Ratio of the unrounded steps/s."""
    efficiency: float | None
    """Speed-up divided by the ratio of worker counts; 1 is linear scaling."""
    throughput_speedup: float | None
    """Ratio of samples/s, which is the relevant one if the batch grows with the workers."""
    steady_speedup: float | None
    """Ratio of steps/s from the median step, which excludes start, evaluations and checkpoints."""
    steady_throughput_speedup: float | None
    """Ratio of samples/s from the median step."""


class SessionComparison(Struct, frozen=True):
    """The result of comparing sessions."""

    sessions: tuple[TrainingSession, ...]
    single: SessionGroup
    multi: SessionGroup
    unknown: SessionGroup
    """Sessions whose number of GPUs is unknown, as a group."""
    scaling: tuple[ScalingPoint, ...] = ()
    speedup: float | None = None
    """Ratio of multi-worker to single-worker steps/s, if all multi-worker sessions have one worker count."""
    efficiency: float | None = None
    differences: tuple[Difference, ...] = field(default=())
    """Settings that differ, because of which the sessions' numbers are not directly comparable."""
    configuration: tuple[Difference, ...] = field(default=())
    """Settings of the trainings' configurations that differ between the sessions."""


def compare(sessions: Sequence[TrainingSession]) -> SessionComparison:
    """Return the comparison of the sessions; the order within a group is that of the argument."""
    by_mode: dict[str | None, list[TrainingSession]] = defaultdict(list)
    for each in sessions:
        by_mode[mode_of(each.summary)].append(each)
    single, multi = group(by_mode["single"]), group(by_mode["multi"])
    points = scaling([*by_mode["single"], *by_mode["multi"]])
    last = points[-1] if len(multi.counts) == 1 and single.sessions and points else None
    return SessionComparison(
        tuple(sessions),
        single,
        multi,
        group(by_mode[None]),
        points,
        last.speedup if last else None,
        last.efficiency if last else None,
        tuple(differences(sessions)),
        tuple(configuration_differences(sessions)),
    )


def mode_of(summary: SessionSummary) -> str | None:
    """Return `single` or `multi`; from the worker count if the session does not state it; None: unknown."""
    if summary.mode is not None:
        return summary.mode
    return None if summary.workers is None else "multi" if summary.workers > 1 else "single"


def group(sessions: Sequence[TrainingSession]) -> SessionGroup:
    """Return the sessions with their averages, which are None if the numbers of workers differ."""
    bare = SessionGroup(tuple(sessions))
    if len(bare.counts) > 1:
        return bare

    def mean(of: Callable[[SessionSummary], float | None]) -> float | None:
        return average(of(each.summary) for each in sessions)

    return SessionGroup(
        bare.sessions,
        mean(steps_per_s),
        mean(lambda summary: summary.samples_per_s),
        mean(lambda summary: summary.steady_steps_per_s),
        mean(steady_samples_per_s),
        mean(lambda summary: summary.duration_s),
        mean(lambda summary: summary.final_loss),
        mean(lambda summary: average(gpu.utilization_avg_pct for gpu in summary.gpus or ())),
        mean(lambda summary: average(gpu.memory_avg_pct for gpu in summary.gpus or ())),
    )


def steps_per_s(summary: SessionSummary) -> float | None:
    """Return the unrounded steps per second from steps and duration, else the stated value, if any."""
    if summary.steps and summary.duration_s:
        return summary.steps / summary.duration_s
    return summary.steps_per_s


def steady_samples_per_s(summary: SessionSummary) -> float | None:
    """Return the samples per second from the median step; None if step or batch size is unknown."""
    size = summary.batch.global_size if summary.batch else None
    return summary.steady_steps_per_s * size if summary.steady_steps_per_s and size else None


def scaling(sessions: Iterable[TrainingSession]) -> tuple[ScalingPoint, ...]:
    """Return one point for each worker count, lowest first; speed-ups are relative to the lowest count.

    A session without a count has one worker if its mode is `single`; others without a count are left out.
    """
    by_count: dict[int, list[TrainingSession]] = defaultdict(list)
    for each in sessions:
        if each.summary.workers:
            by_count[each.summary.workers].append(each)
        elif each.summary.mode == "single":
            by_count[1].append(each)
    if not by_count:
        return ()
    lowest = min(by_count)
    base = group(by_count[lowest])
    points = []
    for workers in sorted(by_count):
        one = group(by_count[workers])
        speedup = ratio(one.steps_per_s, base.steps_per_s)
        efficiency = None if speedup is None else speedup * lowest / workers
        points.append(
            ScalingPoint(
                workers,
                one,
                lowest,
                speedup,
                efficiency,
                ratio(one.samples_per_s, base.samples_per_s),
                ratio(one.steady_steps_per_s, base.steady_steps_per_s),
                ratio(one.steady_samples_per_s, base.steady_samples_per_s),
            )
        )
    return tuple(points)


def differences(sessions: Sequence[TrainingSession]) -> Iterable[Difference]:
    """Yield the settings in which sessions differ; unknown values are ignored."""
    facts: tuple[tuple[str, Callable[[SessionSummary], object]], ...] = (
        ("model", lambda one: one.model and (one.model.name or one.model.parameters)),
        ("global_batch_size", lambda one: one.batch and one.batch.global_size),
        ("sequence_length", lambda one: one.batch and one.batch.sequence_length),
        ("precision", lambda one: one.mixed_precision),
        ("gpu_model", lambda one: ", ".join(sorted({gpu.name for gpu in one.gpus or () if gpu.name}))),
        ("duration_of", lambda one: timed(one.writer)),
        ("device", lambda one: None if one.gpu_count is None else "GPU" if one.gpu_count else "CPU"),
    )
    for what, of in facts:
        values = {each.name: str(value) for each in sessions if (value := of(each.summary))}
        if len(set(values.values())) > 1:
            yield Difference(what, values)


def timed(writer: str | None) -> str | None:
    """Return text on what the duration of a session covers, by its writer; None: unknown."""
    named = ((name, what) for name, what in TIMED.items() if writer and writer.startswith(name))
    return next((what for _, what in named), None)


def average(values: Iterable[float | None]) -> float | None:
    """Return the mean of the known values; None if none is known."""
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def ratio(part: float | None, whole: float | None) -> float | None:
    """Return `part` / `whole`; None if either is unknown or `whole` is 0."""
    return part / whole if part is not None and whole else None
