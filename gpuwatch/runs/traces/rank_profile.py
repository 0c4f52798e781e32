"""The measured values of a trace, without its columns, and the newest trace of each rank."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from pathlib import PurePath

import numpy as np
from msgspec import Struct

from gpuwatch.runs.traces.breakdown import Breakdown, breakdown_of
from gpuwatch.runs.traces.kinds import EventKind, is_communication_call
from gpuwatch.runs.traces.operators import MAX_LISTED_OPERATORS, STEP, OperatorTables, operator_tables
from gpuwatch.runs.traces.rank_trace import RankTrace

MAX_LISTED_SECTIONS = 40


class Section(Struct, frozen=True):
    """The passes of one section named by the program; times in milliseconds."""

    name: str
    calls: int
    total_ms: float
    longest_ms: float

    @property
    def mean_ms(self) -> float:
        """Mean duration of a pass."""
        return self.total_ms / self.calls


class RankProfile(Struct, frozen=True):
    """The measured values of one rank of a job."""

    trace: RankTrace
    """The identity of the rank; the events of the trace are dropped."""
    event_count: int
    breakdown: Breakdown
    tables: OperatorTables
    steps_ms: tuple[float, ...]
    """Duration of each step, if the program called `prof.step()`."""
    sections: tuple[Section, ...]
    begin_us: float = 0.0
    """Time of the first event in microseconds, by the trace's clock."""

    @property
    def label(self) -> str:
        """Name of the rank, such as `rank 3 GPU 1` or `node1.sqlite GPU 1 process 71`, or of the file."""
        trace = self.trace
        who = f"rank {trace.rank}"
        if trace.rank is None:
            who = trace.file if trace.device is None else PurePath(trace.file).name
        if trace.device is not None:
            who += f" GPU {trace.device}"
        return who if trace.process is None else f"{who} process {trace.process}"

    @property
    def has_operators(self) -> bool:
        """False if only sections were traced, so that their content is unknown."""
        return self.breakdown.span_ms > 0

    @property
    def compute_per_step_ms(self) -> float:
        """Computation per step in ms; over the whole trace if it has no steps."""
        return self.breakdown.compute_ms / max(1, len(self.steps_ms))

    @property
    def waiting_per_step_ms(self) -> float:
        """Time in collectives per step in ms; the rank that the others wait for has the least."""
        return self.breakdown.communication_busy_ms / max(1, len(self.steps_ms))


def measure(trace: RankTrace, listed: int = MAX_LISTED_OPERATORS) -> RankProfile:
    """Return the measured values of one trace, and release its events."""
    steps, sections = _sections(trace)
    begin = float(trace.events.starts.min()) if len(trace.events) else 0.0
    tables = operator_tables(trace, listed)
    profile = RankProfile(trace, len(trace.events), breakdown_of(trace), tables, steps, sections, begin)
    trace.events = trace.events.where(np.zeros(0, dtype=np.int64))
    trace.names, trace.details = [], []
    return profile


def _sections(trace: RankTrace) -> tuple[tuple[float, ...], tuple[Section, ...]]:
    marked = trace.events.where(trace.events.kinds == EventKind.ANNOTATION)
    durations: dict[str, list[float]] = {}
    for name, duration in zip(marked.names.tolist(), marked.durations.tolist(), strict=True):
        durations.setdefault(trace.names[name], []).append(duration / 1e3)
    steps = [each for name in durations if STEP.fullmatch(name) for each in durations[name]]
    sections = [
        Section(name, len(times), sum(times), max(times))
        for name, times in durations.items()
        if not STEP.fullmatch(name) and not is_communication_call(name)
    ]
    sections.sort(key=lambda section: -section.total_ms)
    return tuple(steps), tuple(sections[:MAX_LISTED_SECTIONS])


HANDLER_NAME = re.compile(r"(.{1,200})\.\d{10,20}\.pt\.trace\.json")
"""Matches the file name of torch.profiler's `tensorboard_trace_handler`: `WORKER.TIME.pt.trace.json`.

WORKER is host and process.
"""


def newest_cycles(profiles: Iterable[RankProfile]) -> tuple[list[RankProfile], list[RankProfile]]:
    """Return the newest trace of each rank, and the older ones, both in the given order.

    A trace without a rank belongs to the process in its file name; if the name has none, it counts as newest.
    """
    every = list(profiles)
    newest: dict[Hashable, RankProfile] = {}
    for each in every:
        key = _process_of(each)
        if key not in newest or _age(each) > _age(newest[key]):
            newest[key] = each
    chosen = {id(each) for each in newest.values()}
    return [each for each in every if id(each) in chosen], [each for each in every if id(each) not in chosen]


def _process_of(profile: RankProfile) -> Hashable:
    trace = profile.trace
    if trace.rank is not None:
        return trace.rank, trace.device, trace.process, trace.host
    path = PurePath(trace.file)
    named = HANDLER_NAME.match(path.name)
    return (str(path.parent), named[1] if named else path.name), trace.device, trace.process


def _age(profile: RankProfile) -> tuple[float, str]:
    return profile.begin_us, profile.trace.file
