"""Reads what was added to the followed files, in turns."""

import time

from .files.catalog import SMALL_BACKLOG

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .backlog_scan import BacklogScan
    from .file_scanners import FileScanners
    from .files.catalog import Catalog
    from .files.entry import FileEntry
    from .guarded_scan import GuardedScan
    from .ipc.activity_marker import ActivityMarker
    from .queries.server import Server

TURN_S = 0.05
"""Seconds of reading before other work of the log reader gets a turn."""
_ACTIVE_S = 10.0


class FileTurns(object):
    """Gives the followed files turns to be read, and reads a part of one file in each turn."""

    def __init__(
        self,
        catalog: "Catalog",
        marker: "ActivityMarker",
        server: "Server",
        scanners: "FileScanners",
        scan: "GuardedScan",
        backlog: "BacklogScan",
    ) -> None:
        self._catalog = catalog
        self._marker = marker
        self._server = server
        self._scanners = scanners
        self._scan = scan
        self._backlog = backlog
        self._waiting: list[FileEntry] = []
        """Files without a turn in this round."""

    def begin_round(self, now: float) -> None:
        """Start a round in which every file has a turn; files that wait for another turn come last."""
        hungry = self._waiting
        self._waiting = [
            one
            for one in self._catalog.entries.values()
            if one.follower is not None and one.hold_until <= now and one not in hungry
        ] + hungry

    def step(self) -> bool:
        """Read files in turns for a moment; return True if files still wait."""
        until = time.monotonic() + TURN_S
        again: list[FileEntry] = []
        while self._waiting and time.monotonic() < until and not self._scan.outbox.paused:
            entry = self._waiting.pop(0)
            if self._read(entry):
                again.append(entry)
        self._waiting += again
        return bool(self._waiting)

    def look_at_quiet(self, now: float) -> None:
        """Report findings and lines that waited in vain for a continuation, and findings with grown counts.

        `now`: monotonic seconds.
        """
        for entry in self._catalog.entries.values():
            if now - entry.active_at < _ACTIVE_S or now >= entry.quiet_due:
                entry.quiet_due = now + _ACTIVE_S / 4
                for scanner in entry.scanners():
                    self._scan.enter(entry, scanner)
                    self._scan.safely(entry, scanner.quiet, time.time())
                self._marker.idle()
            for tail in entry.tails:
                tail.quiet(now, time.time())

    def _read(self, entry: "FileEntry") -> bool:
        """Read and scan one part of a file; return True if the file probably has more to read."""
        follower = entry.follower
        if follower is None:
            return False
        if entry.held is not None:
            self._scan_held(entry)
            return True
        most = entry.step.bytes
        self._marker.file(entry.path)
        try:
            piece = follower.read(most)
        except OSError as error:
            self._catalog.failed(entry, error)
            return False
        entry.visited = entry.visited or piece is None or len(piece.data) < most
        if follower.finished:
            self._catalog.note_finished(follower)
        if follower.merged:
            self._server.forget(
                entry, "{} is another name of a file that is already followed".format(entry.name)
            )
            self._catalog.drop(entry)
            return False
        if piece is None:
            return False
        now, arrived = time.monotonic(), time.time()
        if piece.seam is not None:
            entry.old_until = 0
            self._server.seam(entry, piece.seam)
        elif piece.offset + len(piece.data) <= entry.old_until:
            arrived = min(arrived, follower.entered_at)  # a bar that was unfinished
        self._scan_live(entry, piece.data, piece.offset, arrived, piece.seam is not None)
        entry.lines += piece.data.count(b"\n")
        entry.grown_at, entry.active_at = arrived, now
        if not entry.arrivals or arrived - entry.arrivals[-1][0] >= 1.0:
            entry.arrivals.append((arrived, piece.offset))
        for tail in entry.tails:
            tail.feed(piece.data, piece.offset, arrived, now)
        return entry.held is not None or len(piece.data) >= most

    def _scan_held(self, entry: "FileEntry") -> None:
        """Scan a step of the backlog that delays a file's live piece; if there is none left, the piece."""
        if entry.backlog is not None and entry.ahead is None:
            self._backlog.read(entry)
        elif entry.held is not None:
            piece, entry.held = entry.held, None
            self._scan_live(entry, *piece)

    def _scan_live(self, entry: "FileEntry", data: bytes, offset: int, arrived: float, seam: bool) -> None:
        backlog = entry.backlog
        if backlog is not None and backlog.left <= SMALL_BACKLOG and entry.ahead is None:
            entry.held, entry.unscanned = (data, offset, arrived, seam), len(data)
            return
        scanner = entry.scanner
        if entry.backlog is not None and scanner is not None and entry.ahead is None:
            past = scanner.gather
            # the other scanner scans the backlog meanwhile; a recovery closes findings of both
            entry.ahead = scanner = self._scanners.of(entry)
            scanner.gather.earlier = past
        elif entry.ahead is not None:
            scanner = entry.ahead
        if scanner is None:
            return
        if seam:
            scanner.seam()
            entry.arrivals.clear()
        inode = 0 if entry.follower is None else entry.follower.inode
        entry.unscanned = len(data)
        old = offset < entry.old_until
        self._scan.feed(entry, scanner, inode, (data, offset, arrived, old), entry.scanned)
        entry.unscanned = 0
