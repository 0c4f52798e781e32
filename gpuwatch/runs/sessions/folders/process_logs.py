"""Reads the communication and performance logs of a session: operations, GPU samples, warnings."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpuwatch.runs.sessions.folders.log_text import LogRecord, dated_records
from gpuwatch.runs.sessions.model.session import CurveSet
from gpuwatch.runs.sessions.model.summary import (
    CommunicationTotals,
    SessionGpu,
    SessionProfile,
    SessionWarning,
    read_struct,
)
from gpuwatch.whole_number import SECONDS_OF

BYTES_OF = {"B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
"""Unit -> bytes; 1 MB is 10^6 bytes, as defined in `docs/sessions.md`."""
OPERATION = re.compile(r"\bCommunication\s*\|\s*(?P<name>[^|]{1,80}?)\s*(?:\||$)")
RANK = re.compile(r"\bRank\s+(\d{1,7})\b")
SIZE = re.compile(r"\bSize:\s*(\d{1,15}(?:\.\d{1,15})?)\s*([KMGT]?B)\b")
DURATION = re.compile(r"\bDuration:\s*(\d{1,15}(?:\.\d{1,15})?)\s*(us|ms|s)\b")
COUNT = re.compile(r"\bCount:\s*(\d{1,12})\b")
STEP = re.compile(r"\bMulti-GPU Step (\d{1,15})\b")
FACT = re.compile(r"^(?P<name>Distributed backend|World size|Local rank):\s*(?P<value>\S{1,80})")
PERFORMANCE = re.compile(r"\bPerformance\s*\|\s*Step (?P<step>\d{1,15})\b(?P<rest>.*)")
STEP_TIME = re.compile(r"Avg step time:\s*(\d{1,15}(?:\.\d{1,15})?)\s*s")
THROUGHPUT = re.compile(r"Throughput:\s*(\d{1,15}(?:\.\d{1,15})?)\s*samples/s")
BATCH = re.compile(r"Total batch size:\s*(\d{1,12})")
PROFILE = re.compile(
    r"\bProfiler \| step (?P<step>\d{1,15}) \| computation: (?P<computation_ms>[\d.]{1,20}) ms"
    r" \| communication: (?P<communication_ms>[\d.]{1,20}) ms \| other: (?P<other_ms>[\d.]{1,20}) ms"
)
"""Matches the line of a profiled step, as `gpuwatch.telemetry` writes it."""
GPU = re.compile(r"\bGPU (?P<index>\d{1,4})\s*\|\s*(?P<rest>.*)")
GPU_VALUE = re.compile(
    r"(?P<name>Utilization|Memory|Temperature|Power):\s*(?P<value>\d{1,15}(?:\.\d{1,15})?)\s?(?:%|C|W)"
)
NODE = re.compile(r"\bNode:\s*(\S{1,200})")
WARNINGS = (
    ("perf.gpu_utilization_low", re.compile(r"\bGPU \d+ utilization low\b", re.IGNORECASE)),
    ("perf.slow_step", re.compile(r"\bSlow training detected\b", re.IGNORECASE)),
    ("comm.init_failed", re.compile(r"\bDistributed backend initialization failed\b", re.IGNORECASE)),
    ("comm.timeout", re.compile(r"\bNCCL communication timeout\b", re.IGNORECASE)),
)
"""Pairs: class of a warning, and the pattern of its lines."""
SEVERITY_OF = {"WARN": "warning", "WARNING": "warning", "ERROR": "error", "CRITICAL": "critical"}
MAX_EXAMPLE_CHARS = 500


@dataclass
class _Operation:
    """The sums of one communication operation."""

    count: int = 0
    sized: int = 0
    size: float = 0.0
    timed: int = 0
    seconds: float = 0.0
    rated_bytes: float = 0.0
    rated_seconds: float = 0.0
    ranks: set[int] = field(default_factory=set)

    def totals(self, name: str) -> CommunicationTotals:
        """Return the totals as a summary has them; the bandwidth uses only lines with size and duration."""
        return CommunicationTotals(
            operation=name,
            count=self.count,
            bytes_total=round(self.size) if self.sized else None,
            bytes_avg=self.size / self.sized if self.sized else None,
            time_total_s=self.seconds if self.timed else None,
            time_avg_s=self.seconds / self.timed if self.timed else None,
            bandwidth_avg_bps=self.rated_bytes / self.rated_seconds if self.rated_seconds else None,
            ranks=sorted(self.ranks),
        )


class _Samples:
    """The samples of one GPU."""

    def __init__(self) -> None:
        self.values: dict[str, list[float]] = defaultdict(list)

    def facts(self, node: str | None, index: int) -> SessionGpu:
        """Return the averages and peaks of a GPU's samples."""

        def mean(name: str) -> float | None:
            values = self.values[name]
            return sum(values) / len(values) if values else None

        def peak(name: str) -> float | None:
            return max(self.values[name], default=None)

        return SessionGpu(
            node=node,
            index=index,
            utilization_avg_pct=mean("utilization"),
            utilization_peak_pct=peak("utilization"),
            memory_avg_pct=mean("memory"),
            memory_peak_pct=peak("memory"),
            temperature_avg_c=mean("temperature"),
            temperature_max_c=peak("temperature"),
            power_avg_w=mean("power"),
            samples=max(map(len, self.values.values()), default=0),
        )


@dataclass
class ProcessLogs:
    """The content of a session's communication and performance logs."""

    operations: dict[str, _Operation] = field(default_factory=dict)
    samples: dict[tuple[str | None, int], _Samples] = field(default_factory=dict)
    warnings: dict[str, SessionWarning] = field(default_factory=dict)
    curves: CurveSet = field(default_factory=CurveSet)
    facts: dict[str, str] = field(default_factory=dict)
    step_times: list[float] = field(default_factory=list)
    batch_size: int | None = None
    profile: SessionProfile | None = None
    last_step: int | None = None
    begin: float | None = None
    end: float | None = None

    def communication(self) -> list[CommunicationTotals]:
        """Return the totals of each operation, in order of first appearance."""
        return [operation.totals(name) for name, operation in self.operations.items()]

    def gpus(self) -> list[SessionGpu]:
        """Return one entry per GPU."""
        return [
            samples.facts(node, index) for (node, index), samples in sorted(self.samples.items(), key=str)
        ]

    def take(self, record: LogRecord) -> None:
        """Process one record of the communication or the performance log."""
        if record.time is not None:
            self.begin = record.time if self.begin is None else min(self.begin, record.time)
            self.end = record.time if self.end is None else max(self.end, record.time)
        text = record.text
        if operation := OPERATION.search(text):
            self._communication(operation["name"], text, record)
        elif performance := PERFORMANCE.search(text):
            self._performance(int(performance["step"]), performance["rest"], record.time)
        elif (profile := profile_of(text)) is not None:
            self.profile = profile
        elif gpu := GPU.search(text):
            self._gpu(int(gpu["index"]), gpu["rest"], record.time)
        elif step := STEP.search(text):
            self.last_step = int(step[1])
        elif fact := FACT.match(text):
            self.facts.setdefault(fact["name"], fact["value"])
        if record.level in SEVERITY_OF:
            self._warning(record)

    def _communication(self, name: str, text: str, record: LogRecord) -> None:
        operation = self.operations.setdefault(name, _Operation())
        count, size, duration = COUNT.search(text), SIZE.search(text), DURATION.search(text)
        times = int(count[1]) if count else 1
        operation.count += times
        if size:
            operation.sized += times
            operation.size += float(size[1]) * BYTES_OF[size[2]]
        seconds = float(duration[1]) * SECONDS_OF[duration[2]] if duration else None
        if seconds is not None:
            operation.timed += times
            operation.seconds += seconds
        if size and seconds:
            operation.rated_bytes += float(size[1]) * BYTES_OF[size[2]]
            operation.rated_seconds += seconds
        rank = RANK.search(text)
        if rank:
            operation.ranks.add(int(rank[1]))
        if seconds is not None:
            writer = f"rank {rank[1]}" if rank else ""
            self.curves.add("communication_s", self.last_step, record.time, seconds, writer)

    def _performance(self, step: int, rest: str, time: float | None) -> None:
        took, speed, batch = STEP_TIME.search(rest), THROUGHPUT.search(rest), BATCH.search(rest)
        self.last_step = step
        if took and float(took[1]) > 0:
            self.step_times.append(float(took[1]))
            self.curves.add("steps_per_s", step, time, 1 / float(took[1]))
        if speed:
            self.curves.add("samples_per_s", step, time, float(speed[1]))
        if batch:
            self.batch_size = int(batch[1])

    def _gpu(self, index: int, rest: str, time: float | None) -> None:
        node = NODE.search(rest)
        name = node[1] if node else None
        values = {each["name"].lower(): float(each["value"]) for each in GPU_VALUE.finditer(rest)}
        samples = self.samples.setdefault((name, index), _Samples())
        for kind, value in values.items():
            samples.values[kind].append(value)
        writer = f"{name} GPU {index}" if name else f"GPU {index}"
        self.curves.add("gpu_utilization_pct", None, time, values.get("utilization"), writer)
        self.curves.add("gpu_memory_pct", None, time, values.get("memory"), writer)

    def _warning(self, record: LogRecord) -> None:
        severity = SEVERITY_OF[record.level]
        known = (class_id for class_id, words in WARNINGS if words.search(record.text))
        class_id = next(known, f"log.{severity}")
        add_warning(
            self.warnings,
            SessionWarning(
                class_id=class_id,
                severity=severity,
                first=record.time,
                last=record.time,
                example=record.text[:MAX_EXAMPLE_CHARS],
            ),
        )


def profile_of(text: str) -> SessionProfile | None:
    """Return the times of a profiled step in a line; None: the line has no such step."""
    found = PROFILE.search(text)
    if found is None:
        return None
    problems: list[str] = []
    return read_struct(SessionProfile, found.groupdict(), "", problems)


def add_warning(known: dict[str, SessionWarning], new: SessionWarning) -> None:
    """Add a warning to `known`; if its class is known, only extend that one's count and times."""
    old = known.get(new.class_id)
    if old is None:
        known[new.class_id] = new
        return
    old.count += new.count
    times = [time for time in (old.first, new.first, old.last, new.last) if time is not None]
    old.first, old.last = (min(times), max(times)) if times else (None, None)


def read_process_logs(logs: Mapping[str, Path], problems: list[str]) -> ProcessLogs:
    """Return the content of the communication and performance logs that exist."""
    found = ProcessLogs()
    for path in logs.values():
        for record in dated_records(path, problems):
            found.take(record)
    return found
