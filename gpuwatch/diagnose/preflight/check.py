"""One line of the checklist, and what all of them look at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import Condition
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.text import job_text, unreadable_text
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.hosts.names import fold
from gpuwatch.wire import NodeSettings, Process, RankSettings

Status: TypeAlias = Literal["PASS", "WARN", "FAIL", "SKIP"]
MAX_SHOWN = 6
"""Different values that are reported one by one."""
NO_GPU = "no node with a GPU responds"


@dataclass(frozen=True)
class Check:
    """One answered question. A SKIP states in `detail` what is missing for an answer."""

    id: str
    """Stable, for scripts: `gpu.ecc`, `versions.driver`."""
    status: Status
    detail: str
    nodes: tuple[str, ...] = ()
    """Those that are not as they should be."""
    remedy: str = ""


@dataclass(frozen=True)
class PreflightRank:
    """A rank's process, where it runs, and what was asked about it."""

    node: str
    number: int
    process: Process
    reported: RankSettings | None

    @property
    def name(self) -> str:
        """`rank 3`."""
        return f"rank {'~' * self.process.inferred}{self.number}"

    @property
    def job(self) -> str:
        """Its job in words; only ranks of one job are compared with each other."""
        return job_text(self.process.job)


@dataclass(frozen=True)
class PreflightData:
    """What is known at one moment."""

    nodes: Sequence[Node]
    """Those that answer."""
    silent: Mapping[str, str]
    """Nodes that do not -> why."""
    reported: Mapping[str, NodeSettings]
    """By node; missing where the node could not be asked."""
    conditions: Sequence[tuple[str, Condition]]
    """(node, what is not well), GPUs' own among them."""
    ranks: Sequence[PreflightRank]
    alerts: Sequence[Alert]
    incidents: Sequence[Incident]
    hang_s: float
    """`Thresholds.hang_s`."""
    now: float
    wall: float
    """Unix seconds of that moment."""
    step_s: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """Node and pid of a rank -> the median seconds of its last steps, where its log reports them."""
    recorded: bool = False
    """Whether the nodes are those of a recording: they answer only what they were asked then."""


def by_job(ranks: Iterable[PreflightRank]) -> dict[str, list[PreflightRank]]:
    """The ranks of every job."""
    jobs: dict[str, list[PreflightRank]] = {}
    for rank in ranks:
        jobs.setdefault(rank.job, []).append(rank)
    return jobs


def passed(id_: str, detail: str) -> Check:
    """All is as it should be."""
    return Check(id_, "PASS", detail)


def skipped(id_: str, why: str) -> Check:
    """Nothing shows it."""
    return Check(id_, "SKIP", why)


def unreadable(parts: int) -> list[Check]:
    """A failed check where parts of a recording cannot be read."""
    return [Check("recording.readable", "FAIL", unreadable_text(parts))] if parts else []


def differing(values: Mapping[str, str]) -> str:
    """Names by value, the most common value first: `gpu-[001-063] 580.82, gpu-064 580.65`."""
    groups: dict[str, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(name)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[1]))
    reported = [f"{fold(names)} {value}" for value, names in ordered[:MAX_SHOWN]]
    more = len(ordered) - MAX_SHOWN
    return ", ".join(reported) + (f", {more} more values" if more > 0 else "")


def odd_ones(values: Mapping[str, str]) -> tuple[str, ...]:
    """The nodes whose value is not the most common one."""
    counts: dict[str, int] = {}
    for value in values.values():
        counts[value] = counts.get(value, 0) + 1
    usual = max(counts, key=lambda value: counts[value], default="")
    return tuple(name for name, value in values.items() if value != usual)


def same(id_: str, what: str, values: Mapping[str, str | None], remedy: str, *, fail: bool = True) -> Check:
    """Whether all nodes (with GPUs, mostly) have one value; those whose value is not known prove nothing."""
    if not values:
        return skipped(id_, NO_GPU)
    known = {name: value for name, value in values.items() if value}
    if not known:
        return skipped(id_, f"no node reports its {what}")
    if len(set(known.values())) == 1:
        unknown = f", not known on {len(values) - len(known)}" if len(known) < len(values) else ""
        return passed(id_, f"{what} {next(iter(known.values()))} on {count(len(known), 'node')}{unknown}")
    status: Status = "FAIL" if fail else "WARN"
    return Check(id_, status, f"{what}: {differing(known)}", odd_ones(known), remedy)


def by_sentence(reported: Iterable[tuple[str, str]]) -> str:
    """(node, sentence) in few words: the same sentence of several nodes once, `gpu-[001-063] GPU 0 ...`."""
    nodes: dict[str, list[str]] = {}
    for node, sentence in reported:
        nodes.setdefault(sentence, []).append(node)
    return listed(f"{fold(names)} {sentence}" for sentence, names in nodes.items())


def count(number: int, what: str) -> str:
    """`1 node`, `8 nodes`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def listed(names: Iterable[str]) -> str:
    """A few names, and how many more."""
    reported = list(names)
    more = len(reported) - MAX_SHOWN
    return "; ".join(reported[:MAX_SHOWN]) + (f"; {more} more" if more > 0 else "")
