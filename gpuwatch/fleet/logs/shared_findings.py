"""A line in a shared file is one finding, whichever nodes read the file one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from msgspec import structs

from gpuwatch.fleet.logs.twins import TWIN
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.wire import Finding

FindingKey: TypeAlias = tuple[str, float, int]
"""Node, which life of its agent, the finding's id."""
Line: TypeAlias = tuple[str, str, str, str, int, str]
"""Identity or path of the file, rule, severity, role, offset, text of the key line."""
Shown: TypeAlias = dict[FindingKey, Finding | None]
"""What is to be shown under a key; None: another node's finding stands for it."""
MAX_LINES = 20_000


@dataclass
class _Reports:
    """What each node that reads the file states of one line, the first one first."""

    by: dict[FindingKey, Finding] = field(default_factory=dict)
    writers: set[FindingKey] = field(default_factory=set)
    """Those of nodes where a process has the file open for writing."""


class SharedFindings:
    """Knows what each node reports of a line in a shared file.

    No node changes what another one reports: a finding is over when all nodes that read the file say so,
    and a node that gives the line another rank or job adds a finding of its own.
    """

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        """`nodes`: those of the fleet, by name."""
        self._nodes = nodes
        self._reports: dict[Line, _Reports] = {}
        self._line: dict[FindingKey, Line] = {}
        self._local: dict[Line, FindingKey] = {}
        """By path instead of identity: the file may turn out to be one that another node sees too."""

    def take(
        self, key: FindingKey, node: Node, finding: Finding, known: Callable[[FindingKey], Finding | None]
    ) -> Shown:
        """Take in what a node reports; what is to be shown now of all that is about the same line.

        One of another severity or role is another one: no node can play down what others find.

        Args:
            key: Of the finding.
            node: The node that reports it.
            finding: With the name of its job.
            known: The finding that is shown under a key.
        """
        file = next((one for one in node.logs if one.path == finding.file), None)
        text = finding.lines[finding.key] if finding.key < len(finding.lines) else ""
        what = finding.rule, finding.severity, finding.role, finding.offset, text
        shown: Shown = {}
        if file is None or file.identity is None:
            self._local.setdefault((finding.file, *what), key)
            shown |= self.drop(key) | {key: finding}
        else:
            line = (file.identity, *what)
            if self._line.get(key, line) != line:
                shown |= self.drop(key)
            reports = self._reports.setdefault(line, _Reports())
            before = self._local.get((finding.file, *what)) if file.identity.startswith(TWIN) else None
            earlier = None if before is None or before in self._line else known(before)
            if before is not None and earlier is not None:
                self._add(before, line, earlier, writes=False)
            self._add(key, line, finding, writes=bool(file.pids))
            shown |= self._shown(reports)
        return shown | self._bound()

    def drop(self, key: FindingKey) -> Shown:
        """Forget one report; what other nodes reported of its line is to be shown instead."""
        line = self._line.pop(key, None)
        if line is None or line not in self._reports:
            return {}
        reports = self._reports[line]
        del reports.by[key]
        reports.writers.discard(key)
        if not reports.by:
            del self._reports[line]
        return self._shown(reports)

    def forget(self, node: str) -> Shown:
        """Forget all that a node reported; what other nodes reported of the same lines is to be shown."""
        shown: Shown = {}
        for key in [key for key in self._line if key[0] == node]:
            shown |= self.drop(key)
        return shown

    def _add(self, key: FindingKey, line: Line, finding: Finding, *, writes: bool) -> None:
        reports = self._reports[line]
        reports.by[key] = finding
        self._line[key] = line
        if writes:
            reports.writers.add(key)

    def _shown(self, reports: _Reports) -> Shown:
        shown: Shown = dict.fromkeys(reports.by)
        for group in _agreeing(reports):
            leader = next((key for key in group if key in reports.writers), next(iter(group)))
            closed = [one for one in group.values() if one.closed]
            open_elsewhere = any(
                not one.closed and self._nodes[key[0]].follows(one.file) for key, one in group.items()
            )
            finding = group[leader]
            if closed and finding.closed == open_elsewhere:
                last_at = max(one.last_at or one.at for one in closed)
                finding = structs.replace(finding, closed=not open_elsewhere, last_at=last_at)
            shown[leader] = finding
        return shown

    def _bound(self) -> Shown:
        """Forget the oldest lines over the limit: what was hidden of them is shown from then on."""
        shown: Shown = {}
        while len(self._local) > MAX_LINES:
            del self._local[next(iter(self._local))]
        while len(self._reports) > MAX_LINES:
            reports = self._reports.pop(next(iter(self._reports)))
            for key, finding in reports.by.items():
                self._line.pop(key, None)
                shown[key] = finding
        return shown


def _agreeing(reports: _Reports) -> Iterator[Mapping[FindingKey, Finding]]:
    """Reports that name the same rank and job, as far as they name any."""
    groups: list[dict[FindingKey, Finding]] = []
    named = [key for key, one in reports.by.items() if one.rank is not None]
    for key in [*named, *(key for key in reports.by if key not in named)]:
        one = reports.by[key]
        for group in groups:
            if all(_agree(one, other) for other in group.values()):
                group[key] = one
                break
        else:
            groups.append({key: one})
    yield from groups


def _agree(one: Finding, other: Finding) -> bool:
    same_rank = None in (one.rank, other.rank) or one.rank == other.rank
    return same_rank and (None in (one.job, other.job) or one.job == other.job)
