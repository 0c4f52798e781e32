"""Determines which ranks of a job have done all that was announced: their end is no loss."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection

from gpuwatch.diagnose.error_outcome.step_track import reached
from gpuwatch.diagnose.model.failure_classes import FINISHED
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.progress import RankProgress
from gpuwatch.fleet.nodes.node import Node


class FinishedTraining:
    """The last steps and reported ends of all jobs, grouped once because a check looks up many ranks."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._writers: dict[str | None, list[RankProgress]] = defaultdict(list)
        for each in fleet.progress.writers.values():
            self._writers[each.job].append(each)
        self._ended: dict[str | None, list[tuple[str, int | None]]] = defaultdict(list)
        """Job -> (node, rank) of each line that the training finished."""
        for found in fleet.findings.values():
            if FINISHED.has(found.finding.rule, fleet.stated_classes.get(found.finding.rule)):
                self._ended[found.finding.job].append((found.node, found.finding.rank))

    def done(self, job: str, nodes: Collection[str]) -> DoneRanks:
        """Return the ranks of a job that are done.

        If one of `nodes`, which run the job, reports its steps, only these steps count; else those of nodes
        that run its launcher, or read a log that several nodes see.
        """
        every = self._writers.get(job, [])
        writers = [each for each in every if each.node in nodes]
        if not writers:
            writers = [each for each in every if _may_log(self._fleet.nodes.get(each.node), each.file, job)]
        return DoneRanks(writers, {rank for node, rank in self._ended.get(job, ()) if node in nodes})


class DoneRanks:
    """The ranks of a job that logged the announced last step, or whose training is reported as finished."""

    def __init__(self, writers: Collection[RankProgress], finished: Collection[int | None]) -> None:
        """Create the set of done ranks. `finished`: ranks of which a line reports the end of the training."""
        self._finished = finished
        self._any = any(map(_has_reached, writers))
        self._own: dict[int | None, bool] = {}
        for each in writers:
            self._own[each.rank] = self._own.get(each.rank, False) or _has_reached(each)

    def __contains__(self, rank: int) -> bool:
        """Return True if a rank is done; for a rank that logs no steps, the last step of any rank counts."""
        return self._own.get(rank, self._any) or rank in self._finished

    def has_one_beyond(self, present: Collection[int], world: int) -> bool:
        """Return True if a rank below `world` that is not in `present` is done.

        As in `__contains__`, a rank that logs no steps is done if any rank logged the last step. The time is
        proportional to the number of known ranks, not to `world`, which any process may state.
        """
        known = {rank for rank in (*self._own, *self._finished) if rank is not None}
        if any(rank < world and rank not in present and rank in self for rank in known):
            return True
        return self._any and len({rank for rank in known.union(present) if rank < world}) < world


def _has_reached(writer: RankProgress) -> bool:
    step, total = writer.value("step"), writer.value("total_steps")
    return step is not None and total is not None and reached(int(step), int(total))


def _may_log(node: Node | None, file: str, job: str) -> bool:
    """Return True if steps of a job may be reported by a node that runs none of its ranks."""
    if node is None:
        return False
    launches = any(each.job == job and each.rank is None for each in node.processes)
    return launches or any(each.path == file and each.identity is not None for each in node.logs)
