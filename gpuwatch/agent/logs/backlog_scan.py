"""Scans the content that files had before they were followed (the backlog)."""

import time

from .scanning.dedup import REPORT_EVERY_S

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .file_scanners import FileScanners
    from .files.backlog import Backlog
    from .files.catalog import Catalog
    from .files.entry import FileEntry
    from .guarded_scan import GuardedScan
    from .ipc.activity_marker import ActivityMarker
    from .ipc.outbox import Outbox
    from .reporter import Reporter
    from .scanning.scanner import Scanner

BACKLOG_TURN_S = 0.02


class BacklogScan(object):
    """Scans the newest parts of all backlogs first, then older ones."""

    def __init__(
        self,
        catalog: "Catalog",
        marker: "ActivityMarker",
        scanners: "FileScanners",
        scan: "GuardedScan",
        reporter: "Reporter",
        outbox: "Outbox",
    ) -> None:
        self._catalog = catalog
        self._marker = marker
        self._scanners = scanners
        self._scan = scan
        self._reporter = reporter
        self._outbox = outbox

    def step(self) -> bool:
        """Scan backlogs for a moment; return True if there was one to scan.

        Files whose newest part is unread come first, then those on which least CPU time was spent.
        """
        now = time.monotonic()
        until = now + BACKLOG_TURN_S
        entries = [e for e in self._catalog.entries.values() if e.backlog is not None and e.hold_until <= now]
        for entry in sorted(entries, key=_spent):
            self.read(entry)
            if time.monotonic() >= until or self._outbox.paused:
                break
        return bool(entries)

    def read(self, entry: "FileEntry") -> None:
        """Scan the next piece of a log file's backlog (its content from before it was followed)."""
        backlog, scanner = entry.backlog, entry.scanner
        if backlog is None or scanner is None:
            return
        self._marker.file(entry.path)
        try:
            data, offset = backlog.read(entry.step.bytes)
        except OSError as error:
            self._reporter.trouble("the older part of {} cannot be read".format(entry.name), str(error))
            backlog.give_up()
            entry.skipped = True
        else:
            piece = data, offset, min(time.time(), backlog.written_at), True
            self._scan.feed(entry, scanner, backlog.inode, piece, backlog.scanned)
        if not backlog.left:
            self._end(entry, backlog, scanner)

    def _end(self, entry: "FileEntry", backlog: "Backlog", scanner: "Scanner") -> None:
        """Finish a part of the backlog; begin the older one, if any, with a new scanner."""
        self._scan.enter(entry, scanner, backlog)
        self._scan.safely(entry, scanner.progress, send=self._reporter.progress)
        self._scan.safely(entry, scanner.past, time.time(), send=self._reporter.progress)
        self._scan.safely(
            entry, scanner.gather.grown, time.time() + REPORT_EVERY_S
        )  # what was reported already
        if entry.ahead is not None:
            self._scan.safely(entry, scanner.end)
            entry.scanner, entry.ahead = entry.ahead, None
        entry.active_at = time.monotonic()
        if backlog.older is None:
            backlog.close()
            entry.backlog = None
            self._reporter.place(entry)
        else:
            backlog.go_older()
            entry.ahead, entry.scanner = entry.scanner, self._scanners.of(entry, steps=False)
        self._marker.idle()
        if not any(one.backlog for one in self._catalog.entries.values()):
            self._reporter.list_soon()


def _spent(entry: "FileEntry") -> "tuple[bool, float]":
    """Return a sort key for files: first those whose newest part is being read, then by CPU time spent."""
    return entry.backlog is not None and entry.backlog.second, entry.step.spent_s
