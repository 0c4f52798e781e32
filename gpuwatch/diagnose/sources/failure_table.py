"""Determines which rank an entry of torchrun's failure table is about, and where it ran."""

from __future__ import annotations

import re
from collections import OrderedDict

from gpuwatch.diagnose.model.failure_classes import RANK_ENDS
from gpuwatch.diagnose.model.rank_index import RankIndex, lived
from gpuwatch.fleet.jobs.places import RankPlace
from gpuwatch.rules.model.failure_class import FailureClass
from gpuwatch.wire import LOCALHOST, Finding

_TABLE_RANK = re.compile(r"^\W*rank\s*: (\d+) \(local_rank: \d+\)", re.MULTILINE)
_TABLE_HOST = re.compile(r"^\W*host\s*: (\S+)", re.MULTILINE)
MAX_JOBS = 256
MAX_RANKS = 4096
"""Most ranks kept of one job: a table lists the ranks of one launcher."""


def table_entry(finding: Finding, stated: FailureClass | None) -> tuple[int, str | None] | None:
    """Return rank and host of an entry in torchrun's failure table, or None.

    Both stand above the exit code of the entry. The host is None if it names no node (localhost).
    """
    if not RANK_ENDS.has(finding.rule, stated):
        return None
    above = "\n".join(finding.lines[: finding.key + 1][-4:])
    rank = _TABLE_RANK.findall(above)
    if not rank or finding.rank not in (None, int(rank[-1])):
        return None
    host = _TABLE_HOST.findall(above)
    return int(rank[-1]), host[-1] if host and host[-1] not in LOCALHOST else None


def table_place(
    finding: Finding,
    file_node: str | None,
    named: tuple[int, str | None],
    node: str | None,
    where: RankIndex,
    at: float,
) -> tuple[str | None, RankPlace]:
    """Return the node (None: unknown) and the rank's place of an entry in torchrun's failure table."""
    rank, host = named
    place = where.of(rank, finding.job, at)
    if place is None and (by_pid := where.by(node, "pid", finding.fields.get("pid"), finding.job)):
        place = by_pid if by_pid.rank == rank else None
    node = node if host is None else where.node_named(host)
    if place is not None and where.places.live and finding.job is None and not lived(place, at):
        place = None  # the rank is of a job that was started later
    if place is not None and _is_elsewhere(finding, file_node, place, node or file_node, where):
        place, node = None, node or file_node
    if place is None:
        return node, RankPlace(rank, node or "", finding.job)
    return place.node or node, place


def _is_elsewhere(
    finding: Finding, file_node: str | None, place: RankPlace, node: str | None, where: RankIndex
) -> bool:
    """Return True if the rank found for an entry is not one that its launcher started.

    Torchrun lists the ranks that it started on its own host; the job found for the entry ran no rank there.
    Only private files of live nodes, and lines of no known job, are examined.
    """
    apart = node is not None and place.node not in ("", node) and not where.on(node, place.job)
    private = where.reach(file_node, finding.file) != "fleet"
    return where.places.live and finding.job is None and apart and private


class RankHosts:
    """Collects what tables state, by job; `version` increases with each new rank."""

    def __init__(self) -> None:
        self.version = 0
        self.of_job: OrderedDict[str, dict[int, str]] = OrderedDict()
        """Job -> rank -> host."""

    def note(self, finding: Finding, stated: FailureClass | None) -> None:
        """Process one finding. Live findings are ignored: running jobs' processes are the better source.

        So are findings without a job.
        """
        entry = None if finding.job is None or not finding.backlog else table_entry(finding, stated)
        rank, host = (0, None) if entry is None else entry
        if host is None:
            return
        hosts = self.of_job.setdefault(finding.job or "", {})
        if hosts.get(rank) == host or len(hosts) >= MAX_RANKS:
            return
        hosts[rank] = host
        self.version += 1
        while len(self.of_job) > MAX_JOBS:
            self.of_job.popitem(last=False)
