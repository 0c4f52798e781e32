"""Determine the node, rank and GPU of a finding, and how the rank is known.

Example: gpu-003 follows `/logs/rank_9.log`, which rank 9 of gpu-002 writes: a line `CUDA error` in it is of
rank 9 on gpu-002. A line of Slurm's daemon in the same file that names gpu-007 and task 4 is of gpu-007 and
the rank of that task (`field`). An Xid in the kernel log of gpu-003 is of gpu-003, and of the rank that held
the GPU with its PCI address then (`process`).
"""

from __future__ import annotations

import re
from typing import NamedTuple

from msgspec import Struct

from gpuwatch.diagnose.alerts.placement.collected_output import node_of_output
from gpuwatch.diagnose.alerts.placement.named_gpu import pci_address
from gpuwatch.diagnose.alerts.placement.named_node import named_node
from gpuwatch.diagnose.alerts.placement.named_process import (
    MAX_READ_CHARACTERS,
    WAITED_FOR_OTHERS,
    by_pid,
    named_process,
)
from gpuwatch.diagnose.alerts.placement.stated_host import ray_host, ray_pid
from gpuwatch.diagnose.model.failure_classes import (
    CANCELLED_ON,
    NODE_FAILURES,
    NODE_NAMING,
    OTHERS_ENDS,
    SCHEDULER_LINES,
    of_kinds,
)
from gpuwatch.diagnose.model.rank_index import STARTED_S, RankIndex, bus_key
from gpuwatch.diagnose.sources.failure_table import table_entry, table_place
from gpuwatch.fleet.jobs.places import RankPlace
from gpuwatch.rules.model.failure_class import FailureClass
from gpuwatch.wire import KERNEL_LOG, SLURM_TASK, Finding, RankSource

POD_NAMING = of_kinds("names_pod")
"""Classes of lines whose field `pod` names the pod at fault."""
NODES_ENDED = OTHERS_ENDS | NODE_FAILURES
_NCCL_DEVICE = re.compile(r"(?<![\w.:-])(?!\d{4}-|\d\d?:)[A-Za-z0-9][\w.-]{0,80}:\d+:\d+ \[(\d{1,3})\] ")
"""Matches the `host:pid:tid [device]` head of an NCCL line; the device is the rank's number on its node."""
_CONTAINER = re.compile(r"\bcontainer_(?:e\d{1,8}_)?\d{6,20}_\d{1,8}_\d{1,4}_\d{1,8}\b")
"""Matches the name of a YARN container."""
_SLURM = re.compile(r"\b(?:slurm(?:stepd|d|ctld)|srun)(?:-[\w.-]{1,80})?(?:\[\d{1,10}\])?: ")
"""Matches the beginning of a line from a Slurm daemon or from srun."""


class LocatedFinding(Struct, frozen=True):
    """A finding, the node that reported it, that node's clock, and what is known of the file's writer."""

    node: str | None
    """The node whose agent reported the finding; in a scan, the node of the file if it is known."""
    finding: Finding
    offset_s: float = 0.0
    """Clock of the node minus the clock of this machine, in seconds."""
    error_s: float = 0.0
    """Largest error of `offset_s`, in seconds."""
    foreign: bool = False
    """True if another node may have written the file; `writer` is then the node of lines that name none."""
    writer: str | None = None
    written_until: float | None = None
    """When the file was last written (unix seconds on our clock), where that is known."""
    stated: FailureClass | None = None
    """As `Alert.stated`."""


class FindingPlace(NamedTuple):
    """The place of a finding: node, rank and GPU; None: unknown."""

    node: str | None = None
    rank: RankPlace | None = None
    known: RankSource | None = None
    """How the rank is known."""


ELSEWHERE = FindingPlace()
"""The place of a finding that is not about the log's own node or rank and whose place is unknown."""


def place_of(found: LocatedFinding, where: RankIndex, at: float, *, kernel: bool) -> FindingPlace:
    """Return the node, rank and GPU that a finding is about.

    `kernel`: the finding is of a kernel rule. `at`: unix seconds.
    """
    finding = found.finding
    if finding.file == KERNEL_LOG and found.node is not None:  # the host that a finding names does not matter
        return _kernel_place(finding, found.node, where, _dated(finding, at))
    node = found.writer if found.foreign else found.node
    named = table_entry(finding, found.stated)
    if named is not None:
        return FindingPlace(*table_place(finding, found.node, named, node, where, at), "field")
    host = finding.host or ray_host(finding, found.stated)
    if host is not None:
        node = where.node_named(host)
    if kernel and where.places.live and node is not None:
        return _kernel_place(finding, node, where, _dated(finding, at))
    at_fault = _node_at_fault(found, where)
    if at_fault is not None:
        node = where.node_named(at_fault)
    elif not kernel and (there := _in_prose(found, node, where, at, host=host)) is not None:
        return there
    elsewhere = _of_other_node(found, node, where, at, host=host, at_fault=at_fault)
    if elsewhere is not None:
        return elsewhere
    place, known = _rank_place(found, node, where, at, kernel=kernel)
    if place is not None and _is_older(
        found, place, at
    ):  # the line is of another job, which had ended before
        place = None if finding.rank is None else RankPlace(finding.rank, node or "")
    if place is not None:
        named_here = node is not None and (host is not None or at_fault is not None)
        if named_here and place.node != node and not where.places.live:  # the line names both node and rank
            place = RankPlace(place.rank, node or "", place.job)
        if place.job is not None and place.node == node and _is_of_another_node(place, node, where):
            return FindingPlace(None, RankPlace(place.rank, "", place.job), known)
        return FindingPlace(place.node or node, place, known)
    unstated = host is None and at_fault is None
    return FindingPlace(
        node_of_output(node, finding.file, finding.job, where) if unstated else node, None, finding.rank_from
    )


def _is_of_another_node(rank: RankPlace, node: str | None, where: RankIndex) -> bool:
    """Return True if the ranks that run on a node show that it does not run this one of their job.

    Example: ranks 0 and 1 of 4 run on n1, whose launcher states 2, and a log of all ranks names rank 3.
    """
    here = [each for each in where.on(node, rank.job) if each.until is None and each.local_size]
    return bool(here) and not any(_is_beside(each, rank.rank) for each in here)


def _is_beside(place: RankPlace, rank: int) -> bool:
    first = place.rank - (place.local_rank or 0)
    return first <= rank < first + (place.local_size or 0)


def _node_at_fault(found: LocatedFinding, where: RankIndex) -> object:
    """Return the node that a line puts at fault, by name or by a pod that was scheduled there; else None."""
    finding = found.finding
    node = finding.fields.get("node") if NODE_NAMING.has(finding.rule, found.stated) else None
    if node is None and "pod" in finding.fields and POD_NAMING.has(finding.rule, found.stated):
        return where.named(f"pod/{finding.fields['pod']}")
    container = _CONTAINER.search(finding.key_line[:MAX_READ_CHARACTERS]) if node is None else None
    return node if container is None else where.named(f"pod/{container[0]}")


def _of_other_node(
    found: LocatedFinding, node: str | None, where: RankIndex, at: float, *, host: object, at_fault: object
) -> FindingPlace | None:
    """Return the place of a line about another node or rank than its log's; None: it may be about the log's.

    `ELSEWHERE` if the line is about another place that is not known.
    """
    finding = found.finding
    of_scheduler = SCHEDULER_LINES.has(finding.rule, found.stated)
    scheduler = of_scheduler and _of_daemon(finding)
    others = _stands_in_others_log(finding, node, where, at)
    if OTHERS_ENDS.has(finding.rule, found.stated) and at_fault is None and host is None:
        return ELSEWHERE  # a node that no longer answers cannot have written the line
    if at_fault is not None and NODES_ENDED.has(finding.rule, found.stated):
        ran = {place.rank: place for place in where.on(node, finding.job)}
        if len(ran) == 1:
            return FindingPlace(node, next(iter(ran.values())), "field")
    if at_fault is not None and (finding.rank is None or scheduler or others):
        pod = f"pod/{finding.fields['pod']}" if "pod" in finding.fields else None
        task = None if node is None else _task(finding, node, where, at)
        return FindingPlace(node, task or _of_pod(pod, where, finding.job), "field")
    if of_scheduler and (finding.rank is None or scheduler):
        return (
            FindingPlace(known="field") if scheduler else ELSEWHERE
        )  # the scheduler's output may be in any log
    there = {place.rank: place for place in where.on(node, finding.job)}
    if host is None or where.places.live or not others or not there:
        return None
    return FindingPlace(node, next(iter(there.values())) if len(there) == 1 else None, "field")


def _in_prose(
    found: LocatedFinding, node: str | None, where: RankIndex, at: float, *, host: object
) -> FindingPlace | None:
    """Return the place of a line that names another node as faulty in prose.

    None: it names none, it reports a timeout, or the log is live (a rank that waits for others writes
    into its own log). The rank of a log is at fault only where it may run on the named node.
    """
    finding = found.finding
    if where.places.live or WAITED_FOR_OTHERS.has(finding.rule, found.stated):
        return None
    named = named_node(finding.key_line)
    name = None if named is None else where.node_named(named.name)
    if named is None or name is None or name == node or (named.is_reporter and host is not None):
        return None
    place, known = _rank_place(found, name, where, at, kernel=False)
    if place is None or not (named.is_reporter or known == "field") or place.node not in ("", name):
        return FindingPlace(name, None, "field")
    return FindingPlace(name, place if place.node else RankPlace(place.rank, name, place.job), known)


def _of_daemon(finding: Finding) -> bool:
    """Return True if Slurm's daemon or srun wrote the line, it names a node, and only its file gives a rank.

    Such a line is of no rank.
    """
    names_node = "node" in finding.fields or CANCELLED_ON in finding.fields
    by_file = finding.rank_from in ("process", "path")
    is_slurm = _SLURM.search(finding.key_line[:MAX_READ_CHARACTERS]) is not None
    return is_slurm and names_node and by_file


def _stands_in_others_log(finding: Finding, node: str | None, where: RankIndex, at: float) -> bool:
    """Return True if a line names another node than that of its log's rank, which only reports it."""
    if node is None or finding.rank is None or finding.rank_from not in ("process", "path"):
        return False
    writer = where.of(finding.rank, finding.job, at)
    return writer is not None and writer.node not in ("", node)


def _is_older(found: LocatedFinding, place: RankPlace, at: float) -> bool:
    """Return True if a line that names no job was written before this rank first started."""
    times = [_dated(found.finding, at), found.written_until]
    last = min((time for time in times if time is not None), default=None)
    known = found.finding.job is None and place.since is not None and last is not None
    return known and (last or 0.0) < (place.since or 0.0) - STARTED_S


def _dated(finding: Finding, at: float) -> float | None:
    """Return `at` if the line has a time or was read live, so that processes of that time fit; else None."""
    return at if finding.timed or not finding.backlog else None


def _kernel_place(finding: Finding, node: str, where: RankIndex, at: float | None) -> FindingPlace:
    """Return the line's own node and the rank that uses the device or has the pid that it names."""
    job, fields = finding.job, finding.fields
    bus = fields.get("pci") or fields.get("bus_id")
    named = (
        ("uuid", finding.gpu),
        ("bus", None if bus is None else bus_key(str(bus))),
        ("gpu", fields.get("gpu")),
        *((kind, pid) for kind in ("pid", "child") for pid in (finding.pid, fields.get("pid"))),
    )
    for kind, value in named:
        place = None if value is None else where.by(node, kind, value, job, at)
        if place is not None or (kind == "uuid" and value is not None):
            return FindingPlace(node, place, None if place is None else "process")
    return FindingPlace(node)


def _task(finding: Finding, node: str, where: RankIndex, at: float) -> RankPlace | None:
    """Return the rank whose number is a line's Slurm task number, if it runs on `node`; else None.

    A task may also be a launcher of several ranks; the first task then has the number of rank 0.
    """
    task = finding.fields.get("tasks", finding.index if finding.index_of == SLURM_TASK else None)
    place = where.of(task, finding.job, at) if isinstance(task, int) else None
    if place is None or place.node != node:
        return None
    launcher = task == 0 and len(where.on(node, place.job)) > 1 and not where.tasks_are_ranks(place.job)
    return None if launcher else place


def _rank_place(
    found: LocatedFinding, node: str | None, where: RankIndex, at: float, *, kernel: bool
) -> tuple[RankPlace | None, RankSource | None]:
    finding = found.finding
    job, fields = finding.job, finding.fields
    if finding.rank is not None:
        unwritten = job is None and where.reach(found.node, finding.file) == "none"
        place = None if unwritten else where.of(finding.rank, job, at)
        return place or RankPlace(finding.rank, node or "", job), finding.rank_from
    if finding.gpu is not None:
        return where.by(node, "uuid", finding.gpu, job, _dated(finding, at)), "process"
    bus = pci_address(finding) if kernel else None
    if bus is not None:
        address, then = bus_key(bus), _dated(finding, at)
        index = fields.get("gpu", where.gpu(node, None, bus))
        place = where.by(node, "bus", address, job, then) or where.only("bus", address, job)
        place = place or (None if index is None else where.by(node, "gpu", index, job, then))
        if place is not None:
            return place, "process"
    numbered = where.numbered(finding.index_of, finding.index, job) or _of_pod(fields.get("pod"), where, job)
    if numbered is not None:
        return numbered, "index"
    below = ray_pid(finding, found.stated)
    place = by_pid(finding, node, where, job, below=below, kernel=kernel)
    named = named_process(finding, found.node, found.stated, where)
    if place is not None or named is not None:
        return (named, "index") if place is None else (place, "process")
    if kernel:  # in a rank's own file, a process prints what its driver reported to it
        unknown = where.places.live or bus is not None
        own = None if unknown else where.of_file(found.node, finding.file, job)
        return own, None if own is None else "path"
    local = next(
        (
            each
            for each in (finding.local_rank, fields.get("local_rank"), fields.get("proc_index"))
            if each is not None
        ),
        None,
    )  # torch.multiprocessing numbers its processes on each node from 0
    if isinstance(local, int):
        return _local_place(found, local, node, where)
    place = _by_nccl_device(finding, node, where)
    return (where.of_file(found.node, finding.file, job), "path") if place is None else (place, "process")


def _by_nccl_device(finding: Finding, node: str | None, where: RankIndex) -> RankPlace | None:
    """Return the rank that uses the device in the head of an NCCL line; None in a live log."""
    line = finding.key_line[:MAX_READ_CHARACTERS]
    device = None if where.places.live else _NCCL_DEVICE.search(line)
    return None if device is None else where.by(node, "local", int(device[1]), finding.job)


def _local_place(
    found: LocatedFinding, local: int, node: str | None, where: RankIndex
) -> tuple[RankPlace | None, RankSource | None]:
    """Return the rank with a local rank or torch.multiprocessing index (None: unknown), and its source."""
    finding, job = found.finding, found.finding.job
    place = where.only_local(local, job) if node is None else where.by(node, "local", local, job)
    if place is not None and where.writes_elsewhere(place, found.node, finding.file):
        return None, "path"
    if place is None and local == finding.fields.get("proc_index"):
        return where.spawned(node, local, finding.file, job), "index"
    if place is None and local == finding.fields.get("local_rank"):
        return where.of_one_node(node, local, job), "field"
    return place, "path"


def _of_pod(pod: object, where: RankIndex, job: str | None) -> RankPlace | None:
    """Return the only rank of a job that runs in the pod that a line names; None: no rank or several.

    The returned place has no node.
    """
    node = None if pod is None else where.named(pod)
    there = {place.rank: place for place in where.on(node, job)}
    rank = next(iter(there), None)
    return RankPlace(rank, "", job) if len(there) == 1 and rank is not None else None
