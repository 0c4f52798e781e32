"""Jobs whose ranks all ended while the link to their node was down: no agent saw how."""

from __future__ import annotations

from dataclasses import dataclass

from gpuwatch.diagnose.missing_ranks.done_ranks import FinishedTraining
from gpuwatch.diagnose.missing_ranks.vanished import EVERY_S
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.check_interval import PeriodicWatch
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.failure_classes import FINISHED
from gpuwatch.diagnose.model.text import clock, ranks_text
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.number_text import plural

CODE = "job.unwatched_end"
SETTLE_S = 10.0
"""Seconds after the link is back in which the logs are read; they may show how the ranks ended."""


@dataclass(frozen=True, slots=True)
class LastList:
    """The ranks of a node by job, and when the node listed them."""

    agent_since: float
    boot_id: str | None
    jobs: dict[str, tuple[int, ...]]
    at: float
    """Unix seconds on our clock."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Ranks of a job that were listed before an outage of their node's link and not after it, and when."""

    node: str
    ranks: tuple[int, ...]
    since: float
    """The last list with the ranks (unix seconds on our clock)."""
    until: float
    """The first list without them (unix seconds on our clock)."""


class UnwatchedEndsWatch(PeriodicWatch):
    """Compares the ranks before and after each outage of a node's link; one alert per job and node.

    A rank whose siblings live is left to `VanishedWatch`, a node with another boot id to the reboot.
    """

    def __init__(self) -> None:
        super().__init__(EVERY_S)
        self._last: dict[str, LastList] = {}
        self._gaps: dict[tuple[str, str], Gap] = {}
        """(job, node) -> its newest gap that is not judged yet."""

    def _check(self, fleet: Fleet, now: float, wall: float) -> bool:
        for node in fleet.nodes.values():
            if (node.processes_at or 0.0) > node.agent_since and node.processes_partial is None:
                self._compare(node, wall - now)
        running = {job for last in self._last.values() for job in last.jobs}
        due = {
            key: gap
            for key, gap in self._gaps.items()
            if wall - gap.until >= SETTLE_S and fleet.nodes[gap.node].logs_complete
        }
        training = FinishedTraining(fleet) if due else None
        changed = False
        for (job, name), gap in due.items():
            del self._gaps[job, name]
            if job in running or training is None or _is_known(fleet, training, job, gap):
                continue
            alert = _alert(job, gap)
            changed |= alert.id not in self.alerts
            self.alerts[alert.id] = alert
        return changed

    def _compare(self, node: Node, offset_s: float) -> None:
        """Store a node's newest list, and what it lacks of the list of the agent before."""
        jobs: dict[str, tuple[int, ...]] = {}
        for process in node.processes:
            if process.job is not None and process.rank is not None and process.state != "Z":
                jobs[process.job] = (*jobs.get(process.job, ()), process.rank)
        boot_id = None if node.hello is None else node.hello.boot_id
        at = (node.processes_at or 0.0) + offset_s
        before, self._last[node.name] = (
            self._last.get(node.name),
            LastList(node.agent_since, boot_id, jobs, at),
        )
        if before is None or before.agent_since == node.agent_since or before.boot_id != boot_id:
            return
        for job, ranks in before.jobs.items():
            if job not in jobs:
                self._gaps[job, node.name] = Gap(node.name, tuple(sorted(ranks)), before.at, at)


def _is_known(fleet: Fleet, training: FinishedTraining, job: str, gap: Gap) -> bool:
    """Return True if the logs show that the job finished, or an error of it or its end since the gap."""
    done = training.done(job, {gap.node})
    if all(rank in done for rank in gap.ranks):
        return True
    return any(
        found.finding.job == job
        and (
            found.finding.severity in GRAVE
            or FINISHED.has(found.finding.rule, fleet.stated_classes.get(found.finding.rule))
        )
        and (found.finding.at or 0.0) - fleet.nodes[found.node].offset_s >= gap.since
        for found in fleet.findings.values()
    )


def _alert(job: str, gap: Gap) -> Alert:
    since, until = (clock(at, gap.until) for at in (gap.since, gap.until))
    which = f"{plural(len(gap.ranks), 'rank')} of {job} ended while {gap.node} was out of reach"
    text = f"{which}, between {since} and {until}; exit status unknown"
    proof = Proof(
        "value",
        f"{ranks_text(gap.ranks)} were listed at {since}, and not when the link was back",
        gap.since,
        node=gap.node,
    )
    return Alert(
        id=f"{CODE}@{job}:{gap.node}:{gap.since:.0f}",
        code=CODE,
        severity="error",
        title="Job ended out of reach",
        text=text,
        proof=(proof,),
        node=gap.node,
        job=job,
        first=gap.since,
        last=gap.until,
    )
