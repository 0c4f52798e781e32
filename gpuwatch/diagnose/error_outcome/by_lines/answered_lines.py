"""Lines around errors as nodes returned them; live log files are read on request only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from gpuwatch.agent.logs.lines.splitter import line_text
from gpuwatch.diagnose.error_outcome.by_lines.recovery_by_lines import last_offset, outlived, recoveries
from gpuwatch.diagnose.error_outcome.consequence import LAST_LINES
from gpuwatch.diagnose.error_outcome.recovery_by_steps import Recovery
from gpuwatch.diagnose.error_outcome.step_track import StepTrack
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.last_activity import Activity, last_line, without_bar
from gpuwatch.fleet.jobs.places import RankPlace
from gpuwatch.fleet.nodes.node import Node
from gpuwatch.runs.files.excerpts.around import ABOVE_BYTES, BELOW_BYTES, LAST_BYTES, LINE_CHARS, Around
from gpuwatch.wire import KERNEL_LOG, LogLine

SAME_CHARS = 60
"""Number of characters of a line that must match for the file to still contain the line there."""
MemoKey: TypeAlias = tuple[str, int | None, int, bool, bool]
"""Arguments of `outlived`: class, rank, least, own_file, stopped."""


END = -1
"""The offset in a `Place` that stands for the end of the file."""


class Place(NamedTuple):
    """The place of an error: node, file, and the byte offsets of its first and its newest line.

    `END` for both offsets: the end of the file.
    """

    node: str
    """Node whose agent reads the file."""
    file: str
    first: int
    """Offset of the error's first line (bytes)."""
    last: int
    """Offset of the newest line with the same text as the error (bytes)."""


def place_of(alert: Alert) -> Place | None:
    """Return the place whose lines to request.

    None: the alert is no line of a log, or is of the kernel log, or several nodes report it.
    """
    proof = alert.proof[0] if alert.proof else None
    if proof is None or proof.node is None or proof.file in (None, KERNEL_LOG) or proof.offset is None:
        return None
    if any(each.node != proof.node for each in alert.proof):
        return None
    return Place(proof.node, proof.file or "", proof.offset, last_offset(alert))


def around_place(
    place: Place, text: str, rows: Iterable[LogLine], last: Iterable[LogLine], size: int
) -> Around | None:
    """Return the lines around an error in the form that `scan` reads; None: it is no longer in the file.

    Args:
        place: The place of the error.
        text: The line of the error.
        rows: Lines around the first and the newest line of the error, in any order.
        last: The last lines of the file; empty: `rows` reach its end.
        size: Size of the file (bytes).
    """
    known = {row.offset: row for row in rows}
    ordered = [known[offset] for offset in sorted(known)]
    if not any(row.offset <= place.first < row.end and _is_same(row.text, text) for row in ordered):
        return None
    above = [row for row in ordered if place.first - ABOVE_BYTES <= row.offset and row.end <= place.first]
    below = [row for row in ordered if place.last < row.offset < place.last + BELOW_BYTES]
    ends = [row for row in last if max(place.last, size - LAST_BYTES) < row.offset] or below
    return Around(_lines(above), _lines(below), _lines(ends), max(0, size - place.last))


def end_lines(last: Iterable[LogLine]) -> Around:
    """Return the last lines of a file for which no lines around an error are known."""
    return Around([], [], _lines(list(last)), 0)


def _is_same(line: str, text: str) -> bool:
    """Return True if the first `SAME_CHARS` of one text are in the other, which may have a prefix."""
    return text.strip()[:SAME_CHARS] in line or line.strip()[:SAME_CHARS] in text


def _lines(rows: Sequence[LogLine]) -> list[str]:
    return [line_text(row.text.encode("utf-8", "replace"))[:LINE_CHARS] for row in rows if row.text.strip()]


def own_files(nodes: Iterable[Node]) -> dict[str, frozenset[str]]:
    """Return node -> its log files that belong to one rank alone."""
    return {node.name: frozenset(file.path for file in node.logs if len(file.ranks) == 1) for node in nodes}


class AnsweredLines:
    """The lines around errors that nodes returned, by place; caches what `outlived` found in them."""

    def __init__(self) -> None:
        self._around: dict[Place, Around] = {}
        self._judged: dict[Place, dict[MemoKey, Recovery | None]] = {}
        self._ends: dict[tuple[str, str], Sequence[str]] = {}
        """Node and file -> the last lines of a rank's log."""

    def put(self, place: Place, around: Around) -> None:
        """Store the lines around an error, or the last lines of a file; they replace earlier ones."""
        if place.first == END:
            self._ends[place.node, place.file] = around.last
            return
        self._around[place] = around
        self._judged[place] = {}

    def keep_only(self, places: Collection[Place | None]) -> None:
        """Drop the lines of all other places."""
        for place in self._around.keys() - places:
            del self._around[place], self._judged[place]

    def last_lines(self, job: str | None, places: Iterable[RankPlace]) -> dict[int, Activity]:
        """Return rank -> the last line of its own log, for the ranks of a job whose nodes returned it."""
        found = {}
        for place in places if self._ends else ():
            for file in place.logs if place.job == job else ():
                line = last_line(self._ends.get((place.node, file), ()))
                if line is not None:
                    found[place.rank] = Activity(without_bar(line), place.rank, file, line)
        return found

    def goes_on(self, alert: Alert) -> bool:
        """Return True if at least LAST_LINES lines below the alert are known."""
        around = self.read(alert)
        return around is not None and len(around.below) >= LAST_LINES

    def recoveries(
        self, alerts: Iterable[Alert], own: Mapping[str, Collection[str]], tracks: Iterable[StepTrack]
    ) -> dict[str, Recovery]:
        """Return alert id -> how its program continued, judged by the lines of its own node.

        Args:
            alerts: The alerts, with the severities that later steps gave them.
            own: Node -> its log files that belong to one rank alone.
            tracks: The steps that ranks logged.
        """
        by_node: dict[str, list[Alert]] = defaultdict(list)
        for alert in alerts if self._around else ():
            place = place_of(alert)
            if place is not None:
                by_node[place.node].append(alert)
        steps: dict[str | None, list[StepTrack]] = defaultdict(list)
        for track in tracks if by_node else ():
            steps[track.node].append(track)
        found: dict[str, Recovery] = {}
        for node, here in by_node.items():
            found |= recoveries(here, self.read, own.get(node, ()), steps[node], self._judge)
        return found

    def read(self, alert: Alert) -> Around | None:
        """Return the lines around an error; None if its node did not return them."""
        place = place_of(alert)
        return None if place is None else self._around.get(place)

    def _judge(
        self, alert: Alert, around: Around, least: int, *, own_file: bool, stopped: bool
    ) -> Recovery | None:
        place = place_of(alert)
        known = {} if place is None else self._judged[place]
        key = (alert.code, alert.rank, least, own_file, stopped)
        if key not in known:
            known[key] = outlived(alert, around, least, own_file=own_file, stopped=stopped)
        return known[key]
