"""Jobs that wait at their start: for ranks that no watched node runs, or for each other.

Example: `WORLD_SIZE=5`, and ranks 0-3 wait in `init_process_group`, idle and without a line. No log names
rank 4, and no node is known to lack it. The evidence is that four of five ranks run and do nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Struct

from gpuwatch.diagnose.missing_ranks.listed_ranks import Member
from gpuwatch.diagnose.missing_ranks.missing import age_s, members_by_job, seen_whole
from gpuwatch.diagnose.missing_ranks.vanished import names_ranks
from gpuwatch.diagnose.model.text import clock, place, ranks_text
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.number_text import duration, listed, plural
from gpuwatch.wire import Process

CODE = "rank.unstarted"
SLEEPING = "job.no_start"
"""Code for a job of which all ranks run and none has ever written a line."""
WAITING_S = 120.0
"""Seconds of idle silence after which a job counts as waiting.

Nodes of one job start within this time, and a starting program uses its CPU.
"""
START_S = 3.0
"""Seconds after the start of its ranks within which a launcher may write its banner."""
IDLE_CPU_PCT = 20.0
"""CPU use in percent of a core below which a rank is idle; one that loads or compiles uses a whole core."""
IDLE_CHILDREN_PCT = 4.0
"""CPU use in percent of a core below which a rank's child processes are idle.

Two tokenizers on a machine with other work use 11 %, a service that logs metrics 2 %.
"""
IDLE_GPU_PCT = 10.0
SPINNING_GPU_PCT = 95.0
SPINNING_POWER_SHARE = 1 / 3
"""Share of the power limit below which a busy GPU belongs to a rank that waits in NCCL for another one."""


class UnstartedRanks(Struct, frozen=True):
    """The ranks of a job that run on no watched node while the others wait; empty if all ranks run."""

    job: str
    ranks: tuple[int, ...]
    world_size: int
    present: int
    node: Node
    """Node of the lowest running rank."""
    silent_s: float
    spinning: int = 0
    """Number of running ranks whose GPU is busy at low power: they wait in a collective."""
    idle: tuple[str, ...] = ()
    """Names of the other running ranks, which idle, if some ranks spin."""

    @property
    def code(self) -> str:
        """Return the failure class of the alert about these ranks."""
        return CODE if self.ranks else SLEEPING

    @property
    def title(self) -> str:
        """Return the title of the alert about these ranks."""
        return "Ranks not started" if self.ranks else "The job has not begun"

    @property
    def text(self) -> str:
        """Return `rank 4 of 5 runs on no monitored node; the 4 others idle and log nothing for 3m 20s`."""
        silent = duration(self.silent_s)
        return self._text(f"for {silent}", f"{silent} ago")

    def text_at(self, wall: float) -> str:
        """Return `text` with the moment since which the ranks are silent; `wall`: unix seconds now."""
        began = clock(wall - self.silent_s, wall)
        return self._text(f"since {began}", f"at {began}")

    def _text(self, silent: str, started: str) -> str:
        if not self.ranks and self.spinning:
            verb = "sleeps" if len(self.idle) == 1 else "sleep"
            others = f"{plural(self.spinning, 'other')} wait on busy GPUs at low power"
            return (
                f"no rank has written a line since their start {started}: "
                f"{listed(self.idle)} {verb}, and {others}"
            )
        if not self.ranks:
            return (
                f"all {plural(self.present, 'rank')} sleep and have written no line since their start "
                f"{started}: they may wait for each other"
            )
        verb = "runs" if len(self.ranks) == 1 else "run"
        others = f"the {plural(self.present, 'other')} idle and log nothing {silent}"
        return f"{ranks_text(self.ranks)} of {self.world_size} {verb} on no monitored node; {others}"


def unstarted_ranks(fleet: Fleet, now: float) -> list[UnstartedRanks]:
    """Return the jobs that wait for ranks which no watched node runs. `now`: monotonic seconds.

    Only if every node of the plan answers, at least half of the ranks are found, and the job has not logged a
    step: otherwise the missing ranks may run on unwatched nodes.
    """
    if not all(names_ranks(node, now) for node in fleet.nodes.values()):
        return []
    found = []
    for job, members in members_by_job(fleet).items():
        world = members[0][1].world_size or 0
        present = {each.rank for _, each in members if each.rank is not None and each.state != "Z"}
        if not len(present) < world <= 2 * len(present) or not seen_whole(members, now):
            continue
        quiet_s = min(silent_s(node, process, now) for node, process in members)
        if quiet_s < WAITING_S or _has_stepped(fleet, job) or not are_idle(members):
            continue
        first = min(members, key=lambda member: member[1].rank or 0)[0]
        ranks = tuple(rank for rank in range(world) if rank not in present)
        found.append(UnstartedRanks(job, ranks, world, len(present), first, quiet_s))
    return found


def sleeping_jobs(fleet: Fleet, now: float) -> list[UnstartedRanks]:
    """Return the jobs of which all ranks run, wait and have written no line since their start (`WAITING_S`).

    A rank waits if it sleeps, or spins on its GPU while another one sleeps. Only jobs with a followed log
    count: a job that writes elsewhere is silent too. `now`: monotonic seconds.
    """
    found = []
    for job, members in members_by_job(fleet).items():
        present = {each.rank for _, each in members if each.rank is not None and each.state != "Z"}
        if len(present) < max(2, members[0][1].world_size or 2) or not seen_whole(members, now):
            continue
        followed = any(file.path in process.logs for node, process in members for file in node.logs)
        quiet_s = min(silent_s(node, process, now) for node, process in members)
        age = min(age_s(node, process, now) for node, process in members)
        if not followed or quiet_s < max(WAITING_S, age - START_S) or _has_stepped(fleet, job):
            continue
        if any(_has_written(node, process, members, now) for node, process in members):
            continue
        spinning = [member for member in members if _spins(*member)]
        others = [member for member in members if member not in spinning]
        if others and are_idle(others):
            first = min(members, key=lambda member: member[1].rank or 0)[0]
            idle = tuple(place(each.rank, node.name, None) for node, each in others)
            found.append(
                UnstartedRanks(
                    job,
                    (),
                    len(present),
                    len(present),
                    first,
                    quiet_s,
                    len(spinning),
                    idle if spinning else (),
                )
            )
    return found


def _has_written(node: Node, process: Process, members: Collection[Member], now: float) -> bool:
    """Return True if a log that only this rank writes has grown since the rank's start.

    A log that several ranks write may have grown by the launcher's banner.
    """
    own_time = node.own_time(now)
    if own_time is None:
        return False
    began = own_time - age_s(node, process, now)
    others = {path for at, each in members if at is node and each is not process for path in each.logs}
    own = [file for file in node.logs if file.path in process.logs and file.path not in others]
    return any(file.grown_at is not None and file.grown_at >= began for file in own)


def silent_s(node: Node, process: Process, now: float) -> float:
    """Return the seconds since the newest log of a process grew, or since its start if it has none.

    0.0: unknown.
    """
    own_time = node.own_time(now)
    if own_time is None:
        return 0.0
    grown = [file.grown_at for file in node.logs if file.path in process.logs and file.grown_at is not None]
    return min([age_s(node, process, now), *(max(0.0, own_time - at) for at in grown)])


def _has_stepped(fleet: Fleet, job: str) -> bool:
    return any(each.job == job and each.value("step") is not None for each in fleet.progress.writers.values())


def are_idle(members: Collection[Member]) -> bool:
    """Return True if neither the processes nor their GPUs do anything, as far as is known."""
    if not all(map(sleeps, (process for _, process in members))):
        return False
    gpus = [node.gpus[held.uuid] for node, each in members for held in each.gpus if held.uuid in node.gpus]
    busy = [gpu.fast.utilization_pct for gpu in gpus if gpu.fast is not None]
    return all(pct is None or pct <= IDLE_GPU_PCT for pct in busy)


def _spins(node: Node, process: Process) -> bool:
    """Return True if a GPU of the process is busy at low power, as if it waited in a collective."""
    for gpu in [node.gpus[held.uuid] for held in process.gpus if held.uuid in node.gpus]:
        fast, limit = gpu.fast, None if gpu.medium is None else gpu.medium.power_limit_w
        if fast is None or fast.utilization_pct is None or fast.power_w is None or limit is None:
            continue
        if fast.utilization_pct >= SPINNING_GPU_PCT and fast.power_w < SPINNING_POWER_SHARE * limit:
            return True
    return False


def sleeps(process: Process) -> bool:
    """Return True if a process sleeps: by its CPU use, or by its state in a node's first list.

    Its child processes count as well: a rank may wait for its tokenizers.
    """
    if (process.children_cpu_pct or 0.0) > IDLE_CHILDREN_PCT:
        return False
    return process.state == "S" if process.cpu_pct is None else process.cpu_pct <= IDLE_CPU_PCT


def lacks_cpu_shares(node: Node, now: float) -> bool:
    """Return True if a rank seems to wait at its start, and the node's next list gives its CPU use.

    The first list has states only, and a rank whose children compute sleeps. `now`: monotonic seconds.
    """
    return any(
        process.rank is not None
        and process.cpu_pct is None
        and process.state == "S"
        and WAITING_S <= age_s(node, process, now) <= silent_s(node, process, now) + START_S
        for process in node.processes
    )
