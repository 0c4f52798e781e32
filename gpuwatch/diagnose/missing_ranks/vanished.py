"""A rank's process that disappeared while its siblings live; no log line may ever explain it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from msgspec import structs

from gpuwatch.diagnose.error_outcome.observed_end import status_of
from gpuwatch.diagnose.missing_ranks.done_ranks import FinishedTraining
from gpuwatch.diagnose.missing_ranks.listed_ranks import ListedRanks, RankKey, Running, living
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.check_interval import PeriodicWatch
from gpuwatch.diagnose.model.failure_classes import VANISHED
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.number_text import plural
from gpuwatch.wire import Process

EVERY_S = 2.0
SIBLINGS_S = 30.0
"""Seconds within which siblings are also gone at a normal end, or when a launcher ends all ranks."""
STEPPED_S = 10.0
"""Seconds after a process was last listed beyond which a logged step was made without the process."""
STARTED_S = 1.0
"""Seconds by which start times of different nodes may differ; ranks of one attempt start closer together."""


@dataclass(slots=True)
class Seen:
    """A rank's process as its node last listed it, the time of that list, and whether it is missing now."""

    node: str
    process: Process
    gpu: int | None
    at: float
    """Time of the last list with the process (unix seconds on our clock)."""
    missing: bool = False
    moved_at: float | None = None
    """Since when another node lists the rank (unix seconds on our clock); other nodes may contradict that."""


class VanishedWatch(PeriodicWatch):
    """Tracks which ranks run; `alerts` has those for ranks that disappeared while siblings live."""

    def __init__(self) -> None:
        super().__init__(EVERY_S)
        self._listed = ListedRanks()
        self._seen: dict[tuple[RankKey, str], Seen] = {}
        """(rank, node) -> newest record of the rank's process."""

    def _check(self, fleet: Fleet, now: float, wall: float) -> bool:
        nodes = {name: node for name, node in fleet.nodes.items() if names_ranks(node, now)}
        running = self._listed.update(nodes.values())
        for key, members in running.items():
            for node, process in members.values():
                self._seen[key, node.name] = Seen(node.name, process, _gpu(node, process), wall)
        raw = living(nodes.values())
        named = {(job, name) for (job, _), members in raw.items() for name in members}
        alive = {
            (name, each.pid, each.start) for members in raw.values() for name, (_, each) in members.items()
        }
        for (key, name), seen in list(self._seen.items()):
            if name not in nodes or name in raw.get(key, ()):
                continue
            if (name, seen.process.pid, seen.process.start) in alive:  # its job has another name now
                del self._seen[key, name]
                continue
            if not self._listed.believes(key, name) or (f"{key[0]}@{name}", name) in named:
                del self._seen[key, name]
                continue
            moved = self._listed.went_to(key, name, running)
            seen.moved_at = (seen.moved_at or wall) if moved else None
            seen.missing = not moved
            if seen.moved_at is not None and wall - seen.moved_at >= SIBLINGS_S:
                del self._seen[key, name]
        jobs = {job for job, _ in running}
        self._seen = {
            each: seen for each, seen in self._seen.items() if each[0][0] in jobs or not seen.missing
        }
        return self._judge(running, fleet, now, wall)

    def _judge(self, running: Running, fleet: Fleet, now: float, wall: float) -> bool:
        changed, training = False, None
        for ((job, rank), _), seen in self._seen.items():
            name = f"{VANISHED}@{job}:{rank}:{seen.process.pid}"
            known = self.alerts.get(name)
            resolved = known is not None and known.state != "firing"
            if known is not None and resolved and seen.missing and not is_back(known, self._listed, running):
                self.alerts[name], changed = structs.replace(known, state="firing"), True
            if not seen.missing or known is not None or wall - seen.at < SIBLINGS_S:
                continue
            if has_status(fleet.nodes.get(seen.node), seen.process):
                continue  # another alert states how the rank ended
            left = [
                key
                for key, members in running.items()
                if key[0] == job and any(_older(node, one, seen) for node, one in members.values())
            ]
            there = nodes_of(job, running) | {seen.node}
            if not left or stepped_since(fleet, job, there, seen.at + STEPPED_S - (wall - now)):
                continue
            training = training or FinishedTraining(fleet)
            if rank not in training.done(job, there):
                ended = how_ended(fleet.nodes.get(seen.node), job, rank)
                self.alerts[name] = _alert(name, job, rank, seen, f"{ended}; {_others(len(left))}")
                changed = True
        for name, alert in self.alerts.items():
            if alert.state == "firing" and is_back(alert, self._listed, running):
                self.alerts[name] = structs.replace(alert, state="resolved")
                changed = True
        return changed


def stepped_since(fleet: Fleet, job: str, nodes: Collection[str], at: float) -> bool:
    """Return True if a job logged a step on one of `nodes` after `at` (monotonic seconds).

    A training does not step without one of its ranks: what ended then was a helper with a rank's environment.
    """
    every = fleet.progress.writers.values()
    writers = (each for each in every if each.job == job and each.node in nodes)
    return any(each.stepped_at is not None and each.stepped_at > at for each in writers)


def is_back(alert: Alert, listed: ListedRanks, running: Running) -> bool:
    """Return True if the rank of an alert runs again on its node, or was restarted on another node."""
    if alert.job is None or alert.rank is None:
        return False
    return listed.went_to((alert.job, alert.rank), alert.node or "", running)


def nodes_of(job: str, running: Running) -> set[str]:
    """Return the nodes that run ranks of a job."""
    return {name for key, members in running.items() if key[0] == job for name in members}


def names_ranks(node: Node, now: float) -> bool:
    """Return True if the node's process list is current and complete."""
    fresh = node.processes_at is not None and node.processes_at >= node.agent_since
    return node.state(now) == "live" and fresh and node.processes_partial is None


def _gpu(node: Node, process: Process) -> int | None:
    gpu = node.gpus.get(process.gpus[0].uuid) if process.gpus else None
    return None if gpu is None else gpu.info.index


def _older(node: Node, process: Process, seen: Seen) -> bool:
    """Return True if a process was already running when `seen` was last listed: both are of one attempt."""
    return process.start is None or process.start - node.offset_s <= seen.at + STARTED_S


def has_status(node: Node | None, process: Process) -> bool:
    """Return True if the agent read the exit status of a process when it ended."""
    return node is not None and status_of(node.events, process.pid, process.start) is not None


def how_ended(node: Node | None, job: str, rank: int) -> str:
    """Return how a rank ended, by the status of its zombie process: `ended with exit code 1`.

    `vanished, exit status unknown` without a status.
    """
    every = [] if node is None else [each for each in node.processes if (each.job, each.rank) == (job, rank)]
    status = next((each.exit_status for each in every if each.exit_status is not None), None)
    if status is None:
        return "vanished, exit status unknown"
    if status >= 0:
        return f"ended with exit code {status}"
    return f"was terminated by signal {-status}"


def _others(left: int) -> str:
    return f"{plural(left, 'other rank')} of the job {'was' if left == 1 else 'were'} still running"


def _alert(name: str, job: str, rank: int, seen: Seen, text: str) -> Alert:
    listed = f"pid {seen.process.pid} was last listed at that time"
    proof = Proof("value", listed, seen.at, node=seen.node)
    alert = vanished_alert(name, (job, rank), seen.node, seen.at, text, (proof,))
    return structs.replace(alert, gpu=seen.gpu, fields={"pid": seen.process.pid})


def vanished_alert(
    name: str, key: RankKey, node: str, at: float, text: str, proof: tuple[Proof, ...]
) -> Alert:
    """Return the alert, with the id `name`, of a rank that disappeared at `at` (unix seconds)."""
    job, rank = key
    return Alert(
        id=name,
        code=VANISHED,
        severity="error",
        title="Rank vanished",
        text=text,
        proof=proof,
        role="first",
        node=node,
        rank=rank,
        rank_from="process",
        job=job,
        first=at,
        last=at,
    )
