"""Merges the findings that several nodes report for the same line of a shared file.

Example: n1 and n2 both follow /shared/train.log, and both report `CUDA error` at offset 512. Both files have
the same identity, so this is one finding, shown as that of the node whose process writes the file. If n2
gives the line another rank, n2's finding is shown in addition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import structs

from gpuwatch.fleet.logs.same_files import BY_FINGERPRINT
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import Finding, LogFile

FindingKey: TypeAlias = tuple[str, float, int]
"""(node, start of its agent, the finding's id)."""
Line: TypeAlias = tuple[str, str, str, str, int, str]
"""Identity or path of the file, rule, severity, role, offset, text of the key line."""
Shown: TypeAlias = dict[FindingKey, Finding | None]
"""Key -> the finding to show under it; None: another node's finding is shown instead."""
MAX_REPEATS = 8
"""Maximum number of findings of one line that one node reports.

A job that rewrites a file may repeat a line.
"""


@dataclass
class _LineReport:
    """One node's finding for a line of a shared file, and whether a process on that node writes the file."""

    finding: Finding
    writes: bool
    """True if a process on the node has the file open for writing."""


@dataclass
class _EventReports:
    """Reports of the same event: all that name a rank or a job name the same one."""

    rank: int | None
    job: str | None
    reports: dict[FindingKey, _LineReport] = field(default_factory=dict)
    lives: set[tuple[str, float]] = field(default_factory=set)
    """(node, start of its agent) of the reports: each agent reports one event once."""

    def accepts(self, key: FindingKey, finding: Finding) -> bool:
        same_rank = None in (self.rank, finding.rank) or self.rank == finding.rank
        same_job = None in (self.job, finding.job) or self.job == finding.job
        return same_rank and same_job and key[:2] not in self.lives

    def add(self, key: FindingKey, report: _LineReport) -> None:
        self.reports[key] = report
        self.lives.add(key[:2])
        self.rank = report.finding.rank if self.rank is None else self.rank
        self.job = report.finding.job if self.job is None else self.job


class SharedFindings:
    """Groups the reports of each line in a shared file.

    No node changes what another one reports: a finding ends when all nodes that read the file report its end,
    and a node that gives the line another rank or job adds a separate finding.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        """Create a collection without reports. `nodes`: the nodes of the fleet, by name."""
        self._nodes = nodes
        self._reports: dict[Line, dict[FindingKey, _LineReport]] = {}
        """Line -> what each node that reads the file reports of it, the first report first."""
        self._line: dict[FindingKey, Line] = {}
        self._local: dict[Line, FindingKey] = {}
        """Line, with the path instead of the identity -> the key of the finding.

        The file may turn out to be one that another node sees too.
        """
        self._local_line: dict[FindingKey, Line] = {}

    def take(
        self, key: FindingKey, node: Node, finding: Finding, known: Callable[[FindingKey], Finding | None]
    ) -> Shown:
        """Store a node's finding for a line; return what to show, by key (None: another node's finding).

        A report with another severity or role is a separate finding: no node can downgrade what others
        report.

        Args:
            key: The finding's key.
            node: The node that reports it.
            finding: With the name of its job.
            known: Returns the finding that is shown under a key, or None.
        """
        file = next((one for one in node.logs if one.path == finding.file), None)
        text = finding.key_line
        what = finding.rule, finding.severity, finding.role, finding.offset, text
        local = (finding.file, *what)
        if file is None or file.identity is None:
            if self._local.setdefault(local, key) == key:
                self._local_line[key] = local
            return self._leave(key) | {key: finding}
        line = (file.identity, *what)
        shown = self._leave(key) if self._line.get(key, line) != line else {}
        self._take_local(local, line, file, known)
        shown |= self._add(key, line, _LineReport(finding, bool(file.pids)))
        return shown | self._shown(line)

    def drop(self, key: FindingKey) -> Shown:
        """Drop one report; return the findings to show instead, from other nodes' reports of the line."""
        local = self._local_line.pop(key, None)
        if local is not None:
            del self._local[local]
        return self._leave(key)

    def forget(self, node: str) -> Shown:
        """Drop all reports of a node; return the findings to show instead, from other nodes' reports."""
        shown: Shown = {}
        for key in [key for key in (*self._line, *self._local_line) if key[0] == node]:
            shown |= self.drop(key)
        return shown

    def _take_local(
        self, local: Line, line: Line, file: LogFile, known: Callable[[FindingKey], Finding | None]
    ) -> None:
        """Add an earlier report that was made before two nodes were known to see the same file."""
        before = self._local.get(local) if (file.identity or "").startswith(BY_FINGERPRINT) else None
        earlier = None if before is None or before in self._line else known(before)
        if before is not None and earlier is not None:
            self._add(before, line, _LineReport(earlier, writes=False))

    def _add(self, key: FindingKey, line: Line, report: _LineReport) -> Shown:
        reports = self._reports.setdefault(line, {})
        reports[key] = report
        self._line[key] = line
        repeats = [each for each in reports if each[0] == key[0]]
        shown: Shown = {}
        for oldest in repeats[:-MAX_REPEATS]:
            shown |= self.drop(oldest) | {oldest: None}
        return shown

    def _leave(self, key: FindingKey) -> Shown:
        line = self._line.pop(key, None)
        if line is None:
            return {}
        del self._reports[line][key]
        if not self._reports[line]:
            del self._reports[line]
        return self._shown(line)

    def _shown(self, line: Line) -> Shown:
        reports = self._reports.get(line, {})
        shown: Shown = dict.fromkeys(reports)
        for group in _groups(reports):
            leader = min(group.reports, key=lambda key: self._distance(key, group))
            findings = {key: report.finding for key, report in group.reports.items()}
            closed = [one for one in findings.values() if one.closed]
            open_elsewhere = any(
                not one.closed and self._nodes[key[0]].follows(one.file) for key, one in findings.items()
            )
            finding = findings[leader]
            if closed and finding.closed == open_elsewhere:
                last_at = max(one.last_at or one.at for one in closed)
                finding = structs.replace(finding, closed=not open_elsewhere, last_at=last_at)
            shown[leader] = finding
        return shown

    def _distance(self, key: FindingKey, group: _EventReports) -> int:
        """Return 0 if the node writes the file and runs the rank, 1 if it only writes the file, else 2.

        The report with the lowest number is shown.
        """
        if not group.reports[key].writes:
            return 2
        ranks = {process.rank for process in self._nodes[key[0]].processes}
        return 0 if group.rank in ranks - {None} else 1


def _groups(reports: Mapping[FindingKey, _LineReport]) -> Iterable[_EventReports]:
    """Yield the reports of one line grouped by event; reports that name a rank are compared first."""
    groups: list[_EventReports] = []
    for key, report in sorted(reports.items(), key=lambda item: item[1].finding.rank is None):
        group = next((each for each in groups if each.accepts(key, report.finding)), None)
        if group is None:
            group = _EventReports(report.finding.rank, report.finding.job)
            groups.append(group)
        group.add(key, report)
    return groups
