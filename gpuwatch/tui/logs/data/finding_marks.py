"""The severities and times of findings, for the loaded lines on which rules have matched."""

from __future__ import annotations

from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.tui.logs.data.folding import Fold
from gpuwatch.tui.logs.data.rows import Feed
from gpuwatch.wire import Severity

MAX_READ_FINDINGS = 64
"""Maximum number of a folded row's lines, from its last one up, whose findings are read."""


class Marked:
    """The severities and times of the fleet's findings, by the line on which each was found."""

    def __init__(self) -> None:
        self._version = -1
        self._known: dict[tuple[str, str, int], Severity] = {}
        self._dated: dict[tuple[str, str, int], tuple[float, int]] = {}

    def refresh(self, fleet: Fleet) -> None:
        """Read the findings again, if they have changed."""
        if fleet.findings_version == self._version:
            return
        self._version, self._known, self._dated = fleet.findings_version, {}, {}
        for reported in fleet.findings.values():
            finding = reported.finding
            key = reported.node, finding.file, finding.offset
            known = self._known.get(key, finding.severity)
            self._known[key] = min(known, finding.severity, key=ORDER.index)
            if finding.timed or not finding.backlog:
                self._dated.setdefault(key, (finding.at, finding.key))

    def at(self, node: str, file: str, offset: int) -> Severity | None:
        """Return the highest severity of the findings at a byte offset of a file; None if there is none."""
        return self._known.get((node, file, offset))

    def dated(self, node: str, file: str, offset: int) -> tuple[float, int] | None:
        """Return the time of a finding by its byte offset (node's clock), and the number of lines before it.

        These lines belong to the finding. None without a finding, and for an undated line that was written
        before the agent started.
        """
        return self._dated.get((node, file, offset))

    def severity(self, feed: Feed, row: Fold) -> Severity | None:
        """Return the highest severity of findings in a row's last 64 lines; None if there is none."""
        if not self._known:
            return None
        worst: Severity | None = None
        for number in row.members[-MAX_READ_FINDINGS:] or (row.first,):
            source = feed.source_of(number)
            found = self.at(source.node, source.file, feed.line(number).offset)
            if found is not None:
                worst = found if worst is None else min(worst, found, key=ORDER.index)
        return worst
