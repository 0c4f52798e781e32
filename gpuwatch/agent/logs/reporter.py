"""Sends the log reader's reports to the agent: findings, progress, the file list, and problems."""

import json
import time

from .ipc import messages
from .scanning.dedup import MAX_OPEN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .files.catalog import Catalog
    from .files.entry import FileEntry
    from .ipc.outbox import Outbox
    from .matching.ruleset import RuleSet
    from .queries.kernel_lines import KernelLines

BEAT_S = 0.5
QUIET_BEAT_S = 2.0
"""Interval of heartbeats (seconds) while there is nothing to read; below the agent's limits on silence."""
LIST_S = 2.0
"""Shortest interval of file lists in seconds; if only counts changed, `COUNTS_S`."""
COUNTS_S = 5.0
MAX_FINDING = 100000
"""Characters of a finding's lines; the wire accepts 1 MiB, and JSON may use 6 bytes per character."""
SHORT_FINDING = 2000
"""Maximum characters of a finding's lines while the outbox is full."""
MAX_LIST_BYTES = 768 << 10
"""Bytes of a file list; the wire accepts 1 MiB, and anyone can create names of 4 kB."""
BEHIND_BYTES = 16 << 20


class Numbers(object):
    """Assigns finding ids; `next` is the next id."""

    def __init__(self, first: int) -> None:
        self.next = first

    def __call__(self) -> int:
        """Return the next id."""
        number = self.next
        self.next += 1
        return number


class Reporter(object):
    """Queues the log reader's messages to the agent, each when it is due."""

    def __init__(
        self,
        outbox: "Outbox",
        catalog: "Catalog",
        kernel: "KernelLines",
        numbers: "Numbers",
        ruleset: "RuleSet",
        bad_rules: "list[dict[str, Any]]",
    ) -> None:
        self._outbox = outbox
        self._catalog = catalog
        self._kernel = kernel
        self._numbers = numbers
        self._ruleset = ruleset
        self._bad_rules = bad_rules
        self._beat_due = 0.0
        self._beat: dict[str, int] = {}
        self._beat_at = 0.0
        self._list_due = 0.0
        self._listed: list[dict[str, Any]] | None = None
        self._complete = False
        self._found: dict[str, Any] = {}
        self._listed_at = 0.0
        self._noticed: list[dict[str, Any]] = []
        self._troubles: set[str] = set()
        self._reported_places: dict[str, list[int]] = {}

    def list_soon(self) -> None:
        """Make the file list due, since it is awaited."""
        self._list_due = 0.0

    def beat_soon(self) -> None:
        """Make a heartbeat due, since something was searched that must not be searched again."""
        self._beat_due = 0.0

    def send(self, findings: "list[dict[str, Any]]") -> None:
        """Send findings (dicts with the keys of `wire.Finding`), their lines cut to a limit.

        The file list is sent before, if it lacks their file.
        """
        known = {row["path"] for row in self._listed or ()}
        if any(
            finding["file"] in self._catalog.entries and finding["file"] not in known for finding in findings
        ):
            self._list(time.monotonic())  # the file list precedes findings in its files
        t = round(time.time(), 3)
        for finding in findings:
            lines = finding["lines"]
            most = SHORT_FINDING if self._outbox.paused else MAX_FINDING
            if sum(map(len, lines)) > most:
                lines = [line[: most // len(lines)] for line in lines]
            self._outbox.put("F", dict(finding, kind="finding", t=t, lines=lines))

    def progress(self, frames: "list[dict[str, Any]]") -> None:
        """Send training progress (dicts with the keys of `wire.Progress`)."""
        t = round(time.time(), 3)
        for frame in frames:
            self._outbox.put("R", dict(frame, kind="progress", t=t))

    def place(self, entry: "FileEntry") -> None:
        """Send a file's reading position after its findings, so that a later reader does not repeat them."""
        place = entry.place()
        if place and self._reported_places.get(entry.path) != place:
            self._reported_places[entry.path] = place
            self._outbox.put("P", {entry.path: place})

    def trouble(self, title: str, detail: str) -> None:
        """Send a problem as an event; the same title is sent once."""
        if title in self._troubles:
            return
        self._troubles.add(title)
        self._outbox.put("E", {
            "kind": "event", "t": round(time.time(), 3), "event": "agent", "severity": "warning",
            "source": "agent", "title": "logs: " + title, "detail": detail[:500],
        })  # fmt: skip

    def report(self, complete: bool, found: "dict[str, Any]", busy: bool) -> None:
        """Send heartbeat, positions, notices and the file list, each when due.

        `complete`: every known file is in the list; `found`: further keys of the list; `busy`: there is more
        to read.
        """
        if (complete, found) != (self._complete, self._found):
            self._complete, self._found, self._listed, self._list_due = complete, found, None, 0.0
        now = time.monotonic()
        if now >= self._beat_due and not self._outbox.full:
            self._beat_due = now + BEAT_S
            for entry in self._catalog.entries.values():
                self.place(entry)
            beat = {"next_id": self._numbers.next, "records": self._kernel.size}
            if busy or beat != self._beat or now >= self._beat_at + QUIET_BEAT_S:
                self._beat, self._beat_at = beat, now
                self._outbox.put("B", beat)
            notices = self._notices()
            if notices != self._noticed:
                self._noticed = notices
                self._outbox.put("N", notices)
            self._catalog.retry()
        if now >= self._list_due:
            self._list_due = now + LIST_S
            self._list(now)

    def _list(self, now: float) -> None:
        rows = [entry.row() for entry in self._catalog.entries.values()]
        kernel = self._kernel.row()
        rows += [kernel] if kernel is not None else []
        if rows == self._listed:
            return
        before = self._listed
        only_counts = before is not None and list(map(_lasting, rows)) == list(map(_lasting, before))
        if only_counts and now - self._listed_at < COUNTS_S:
            return
        self._listed, self._listed_at = rows, now
        kept = fitting(rows, MAX_LIST_BYTES)
        frame = {"kind": "logs", "t": round(time.time(), 3), "files": kept, "complete": self._complete}
        frame.update(self._found)
        left_out = len(self._catalog.left_out) + len(rows) - len(kept)
        if left_out:
            frame["truncated"] = left_out
        self._outbox.put("G", frame)

    def _notices(self) -> "list[dict[str, Any]]":
        slow = self._ruleset.suspended.items()
        found = self._bad_rules + [
            messages.slow(rule, why)
            for rule, why in sorted(slow)
            if not why.startswith(messages.ENDLESS_RULE)
        ]
        late = [(e.follower.behind, e.name) for e in self._catalog.entries.values() if e.follower is not None]
        if late and max(late)[0] > BEHIND_BYTES:
            found.append(messages.behind(max(late)[1], BEHIND_BYTES))
        for entry in self._catalog.entries.values():
            if entry.scanner is not None and entry.scanner.left_out:
                found.append(messages.crowded(entry.name, MAX_OPEN))
        return found


def fitting(rows: "list[dict[str, Any]]", most: int) -> "list[dict[str, Any]]":
    """Return as many of the rows as fit into `most` bytes of JSON, in their order.

    The smallest rows are chosen first.
    """
    sizes = [len(json.dumps(row)) + 1 for row in rows]
    kept, total = set(), 0
    for at in sorted(range(len(rows)), key=sizes.__getitem__):
        total += sizes[at]
        if total > most:
            break
        kept.add(at)
    return [row for at, row in enumerate(rows) if at in kept]


_COUNTS = frozenset(("size", "lines", "grown_at", "backlog_pct", "searched_to", "fingerprint"))


def _lasting(row: "dict[str, Any]") -> "list[tuple[str, Any]]":
    """Return the items of a file's row that do not change with every line.

    One more item states whether all of the file is searched.
    """
    searched = row.get("searched_to", -1) >= (row.get("size") or 0)
    return sorted(
        [(key, value) for key, value in row.items() if key not in _COUNTS] + [("searched", searched)]
    )
