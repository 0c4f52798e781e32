"""A line of the checklist, and the data that all checks use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, TypeAlias

from msgspec import Struct, field

from gpuwatch import number_text
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import Condition
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.text import job_text, unreadable_text
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.hosts.names import fold
from gpuwatch.number_text import counted
from gpuwatch.wire import NodeSettings, Process, RankSettings

Status: TypeAlias = Literal["PASS", "WARN", "FAIL", "SKIP"]
MAX_SHOWN = 6
"""Most differing values that are listed individually."""
NO_GPU = "no node with a GPU responds"


class Check(Struct, frozen=True):
    """The result of one check: PASS, WARN, FAIL or SKIP, the reason, the failing nodes and the remedy."""

    id: str
    """The id of the check, stable for scripts: `gpu.ecc`, `versions.driver`."""
    status: Status
    detail: str
    nodes: tuple[str, ...] = ()
    """Nodes that fail the check."""
    remedy: str = ""


class PreflightRank(Struct, frozen=True):
    """A rank's process, its node, and the settings that the node reported for it (None: none)."""

    node: str
    number: int
    process: Process
    reported: RankSettings | None

    @property
    def name(self) -> str:
        """Return `rank 3`, or `rank ~3` if the number is inferred."""
        return f"rank {'~' * self.process.inferred}{self.number}"

    @property
    def job(self) -> str:
        """Return the rank's job as text; only ranks of one job are compared."""
        return job_text(self.process.job)


class PreflightData(Struct, frozen=True):
    """The facts at one moment that the checks use."""

    nodes: Sequence[Node]
    """Nodes that respond."""
    silent: Mapping[str, str]
    """Nodes that do not respond -> reason."""
    reported: Mapping[str, NodeSettings]
    """Node -> its settings; a node that could not be queried is not a key."""
    conditions: Sequence[tuple[str, Condition]]
    """Pairs of node and condition; conditions of GPUs are included."""
    ranks: Sequence[PreflightRank]
    alerts: Sequence[Alert]
    incidents: Sequence[Incident]
    hang_s: float
    """`Thresholds.hang_s`."""
    now: float
    wall: float
    """Unix seconds."""
    step_s: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """Node and pid of a rank -> median duration of its last steps in seconds, where its log has them."""
    recorded: bool = False
    """True for a recording: only requests made while it was recorded have answers."""


def by_job(ranks: Iterable[PreflightRank]) -> dict[str, list[PreflightRank]]:
    """Return the name of each job -> its ranks."""
    jobs: dict[str, list[PreflightRank]] = {}
    for rank in ranks:
        jobs.setdefault(rank.job, []).append(rank)
    return jobs


def passed(id_: str, detail: str) -> Check:
    """Return a check with result PASS: nothing is wrong."""
    return Check(id_, "PASS", detail)


def skipped(id_: str, why: str) -> Check:
    """Return a check with result SKIP: the data for it is not available."""
    return Check(id_, "SKIP", why)


def unreadable(parts: int) -> list[Check]:
    """Return a FAIL check if parts of a recording cannot be read; else no check."""
    return [Check("recording.readable", "FAIL", unreadable_text(parts))] if parts else []


def differing(values: Mapping[str, str]) -> str:
    """Return names grouped by value, most common value first: `gpu-[001-063] 580.82, gpu-064 580.65`.

    Beyond MAX_SHOWN values only the number of others is given.
    """
    groups: dict[str, list[str]] = {}
    for name, value in values.items():
        groups.setdefault(value, []).append(name)
    ordered = sorted(groups.items(), key=lambda group: (-len(group[1]), group[1]))
    reported = [f"{fold(names)} {value}" for value, names in ordered[:MAX_SHOWN]]
    more = len(ordered) - MAX_SHOWN
    return ", ".join(reported) + (f", {more} more values" if more > 0 else "")


def odd_ones(values: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names (such as nodes) whose value differs from the most common one."""
    counts: dict[str, int] = {}
    for value in values.values():
        counts[value] = counts.get(value, 0) + 1
    usual = max(counts, key=lambda value: counts[value], default="")
    return tuple(name for name, value in values.items() if value != usual)


def same(id_: str, what: str, values: Mapping[str, str | None], remedy: str, *, fail: bool = True) -> Check:
    """Return the `Check` that all nodes have the same value; unknown values are ignored.

    Otherwise FAIL, or WARN without `fail`; SKIP if no value is known. `values`: node -> value; `what`:
    its name in the text.
    """
    if not values:
        return skipped(id_, NO_GPU)
    known = {name: value for name, value in values.items() if value}
    if not known:
        return skipped(id_, f"no node reports its {what}")
    if len(set(known.values())) == 1:
        unknown = f", not known on {len(values) - len(known)}" if len(known) < len(values) else ""
        return passed(id_, f"{what} {next(iter(known.values()))} on {counted(len(known), 'node')}{unknown}")
    status: Status = "FAIL" if fail else "WARN"
    return Check(id_, status, f"{what}: {differing(known)}", odd_ones(known), remedy)


def by_sentence(reported: Iterable[tuple[str, str]]) -> str:
    """Return (node, sentence) pairs as text.

    Nodes with the same sentence are merged: `gpu-[001-063] GPU 0 ...`.
    """
    nodes: dict[str, list[str]] = {}
    for node, sentence in reported:
        nodes.setdefault(sentence, []).append(node)
    return listed(f"{fold(names)} {sentence}" for sentence, names in nodes.items())


def listed(names: Iterable[str]) -> str:
    """Return the first MAX_SHOWN texts, and how many more there are."""
    return number_text.listed(list(names), MAX_SHOWN, "; ")
