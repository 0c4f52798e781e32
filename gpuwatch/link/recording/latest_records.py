"""Selects the content of key frames: of everything that nodes reported, the records that still matter."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import structs

from gpuwatch.agent.masking.secret_forms import MASK
from gpuwatch.link.recording.records import StreamRecord
from gpuwatch.link.stream.inbox import Content, LinkStatus
from gpuwatch.wire import (
    Event,
    Finding,
    GpuFast,
    GpuMedium,
    GpuSample,
    GpuSlow,
    Progress,
    Sample,
    encode,
)

KeptSample: TypeAlias = tuple[StreamRecord, Sample]

KEPT_EVENTS = 200
"""Events per node, as many as the fleet keeps."""
KEPT_FINDINGS = 2_000
"""Findings per node, the newest."""
KEPT_PROGRESS = 2
"""Progress records per writer and file: enough for a step time."""
MASK_BYTES = MASK.encode()
MAX_WRITERS, MAX_GPUS = 4_096, 1_024
"""Per node."""
REPLACED = frozenset(("link", "clock", "refused", "hello", "ranks", "logs", "bye"))
"""Kinds of which a newer record replaces the older one."""


@dataclass(slots=True)
class _GpuTiers:
    """The last sample of a GPU, and the newest reading of each tier."""

    sample: KeptSample
    fast: GpuFast | None = None
    medium: GpuMedium | None = None
    slow: GpuSlow | None = None
    missing: dict[str, str] | None = None


@dataclass
class _NodeRecords:
    """The records of one node that a key frame needs."""

    newest: dict[str, StreamRecord] = field(default_factory=dict)
    """By kind."""
    gpus: dict[str, _GpuTiers] = field(default_factory=dict)
    """By UUID."""
    host: dict[str, KeptSample] = field(default_factory=dict)
    """`host`, `disks` and `agent` -> the last sample that had it."""
    events: deque[StreamRecord] = field(default_factory=lambda: deque(maxlen=KEPT_EVENTS))
    findings: dict[tuple[int, int], StreamRecord] = field(default_factory=dict)
    """(agent instance, finding id) -> the finding's newest record."""
    lives: dict[int, StreamRecord] = field(default_factory=dict)
    """Agent instance -> the link record of its start, kept as long as one of its findings."""
    life: int = 0
    progress: dict[tuple[object, ...], deque[StreamRecord]] = field(default_factory=dict)
    past: dict[tuple[object, ...], StreamRecord] = field(default_factory=dict)

    def take(self, one: StreamRecord, what: Content) -> None:
        """Add a record; it may replace earlier ones. `what`: its decoded content."""
        if one.kind in REPLACED:
            self.newest[one.kind] = one
            if isinstance(what, LinkStatus) and what.phase == "live":
                self.life += 1
                self.lives[self.life] = one
        match what:
            case Sample():
                self._take_sample(one, what)
            case Event():
                self.events.append(one)
            case Finding():
                self._take_finding(one, what)
            case Progress():
                self._take_progress(one, what)
            case _:
                pass

    def _take_sample(self, one: StreamRecord, sample: Sample) -> None:
        found = (one, sample)
        if sample.host is not None:
            self.host["host"] = found
            if sample.host.disks:
                self.host["disks"] = found
        if sample.agent is not None:
            self.host["agent"] = found
        for gpu in sample.gpus:
            tiers = self.gpus.get(gpu.uuid)
            if tiers is None:
                if len(self.gpus) >= MAX_GPUS:
                    del self.gpus[next(iter(self.gpus))]
                tiers = self.gpus[gpu.uuid] = _GpuTiers(found)
            tiers.sample = found
            if gpu.fast is not None:
                tiers.fast = gpu.fast
            if gpu.medium is not None:
                tiers.medium = gpu.medium
            if gpu.slow is not None:
                tiers.slow = gpu.slow
            if gpu.missing is not None:
                tiers.missing = gpu.missing

    def _take_finding(self, one: StreamRecord, finding: Finding) -> None:
        self.findings.pop((self.life, finding.id), None)
        self.findings[self.life, finding.id] = one
        if len(self.findings) > KEPT_FINDINGS:
            life, _ = oldest = next(iter(self.findings))
            del self.findings[oldest]
            if life != self.life and not any(key[0] == life for key in self.findings):
                self.lives.pop(life, None)

    def _take_progress(self, one: StreamRecord, progress: Progress) -> None:
        writer = (progress.file, progress.rank, progress.local_rank, progress.pid, progress.host)
        if progress.past:
            self.past[writer] = one
            return
        self.progress.setdefault(writer, deque(maxlen=KEPT_PROGRESS)).append(one)
        if len(self.progress) > MAX_WRITERS:
            del self.progress[next(iter(self.progress))]

    def records(self) -> Iterator[StreamRecord]:
        """Yield the records that a key frame needs, unordered."""
        yield from self.newest.values()
        yield from self._samples()
        yield from self.events
        yield from self.findings.values()
        with_findings = {life for life, _ in self.findings}
        yield from (one for life, one in self.lives.items() if life in with_findings or life == self.life)
        for steps in self.progress.values():
            yield from steps
        yield from self.past.values()

    def _samples(self) -> Iterator[StreamRecord]:
        """Yield the last sample of each GPU, completed by parts of earlier samples, and those of the host."""
        kept = [*(tiers.sample for tiers in self.gpus.values()), *self.host.values()]
        for found in {id(each): each for each in kept}.values():
            one, sample = found
            is_last = {name: each is found for name, each in self.host.items()}
            whole = structs.replace(
                sample,
                gpus=list(self._gpus_of(found)),
                host=sample.host if is_last.get("host") or is_last.get("disks") else None,
                agent=sample.agent if is_last.get("agent") else None,
            )
            yield structs.replace(one, body=encode(whole).rstrip())

    def _gpus_of(self, found: KeptSample) -> Iterator[GpuSample]:
        """Yield the GPUs whose last sample is `found`, completed by parts of their earlier samples."""
        for gpu in found[1].gpus:
            tiers = self.gpus.get(gpu.uuid)
            if tiers is not None and tiers.sample is found:
                yield structs.replace(
                    gpu, fast=tiers.fast, medium=tiers.medium, slow=tiers.slow, missing=tiers.missing
                )


class LatestRecords:
    """The records of all nodes that a key frame needs. Pass every record to `take`, in order."""

    def __init__(self) -> None:
        self._nodes: dict[int, _NodeRecords] = {}

    def take(self, one: StreamRecord, what: Content) -> None:
        """Add a record; it may replace earlier ones. `what`: its decoded content."""
        node = self._nodes.get(one.node)
        if node is None:
            node = self._nodes[one.node] = _NodeRecords()
        node.take(one, what)

    @property
    def masked(self) -> int:
        """Return the number of secrets that nodes masked in these records."""
        return sum(one.body.count(MASK_BYTES) for node in self._nodes.values() for one in node.records())

    def records(self) -> list[StreamRecord]:
        """Return the records that give a reader the current state, oldest first."""
        found = {id(one): one for node in self._nodes.values() for one in node.records()}
        return sorted(found.values(), key=lambda one: one.at)
