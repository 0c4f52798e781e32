"""The log reader: a process of the agent's, in which files are read and searched.

One loop with short steps: requests first, then what is new in the files, each file in its turn, then globs
and what was there before. Whatever may never come back (a pattern, a dead mount) is announced by a
activity marker; the agent kills us when we send nothing, and starts another reader that does
without it.
"""

import select
import time

from ..base.requests import Requests
from .checkpoints.lookup import CheckpointFiles
from .discovery.discovery import Discovery
from .files.catalog import SMALL_BACKLOG, Catalog
from .files.finder import Finder
from .files.mounts import Mounts
from .files.packing_magic import packed_inside
from .ipc.activity_marker import ActivityMarker
from .ipc.lifeline import die_with
from .ipc.outbox import Outbox
from .load_rules import load
from .matching.matcher import LineMatcher
from .matching.prefilter import Sieve
from .progress.metrics_table import HEADER_BYTES
from .queries.kernel_lines import NAME as KERNEL
from .queries.kernel_lines import KernelLines
from .queries.server import Server
from .reporter import Numbers, Reporter
from .scanning.dedup import REPORT_EVERY_S
from .scanning.scanner import Scanner
from .scanning.table_reader import TableReader
from .scanning.table_sieve import TableFile, TableSieve, is_table_name
from .watchdog.stretches import CAREFUL, SKIPPED, Stretches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO, Callable  # noqa: F401 - used in type comments

    from .files.backlog import Backlog  # noqa: F401 - used in type comments
    from .files.entry import FileEntry  # noqa: F401 - used in type comments

TURN_S = 0.05
"""Files are read for so long before somebody else has a turn."""
BACKLOG_TURN_S = 0.02
TICK_S = 1.0
"""Progress is reported so often, however many steps were written in the meantime."""
PATIENCE_S = 3.0
"""The backlog waits so long for the first list of processes, which states who writes what."""
MAX_MESSAGE = 16 << 20
_ACTIVE_S = 10.0


def run(config, stdin, stdout):
    # type: (dict[str, Any], BinaryIO, BinaryIO) -> int
    """Read logs until `stdin` ends; the exit status."""
    die_with(config["parent"])
    worker = Worker(config, Requests(stdin, MAX_MESSAGE), Outbox(stdout.fileno()))
    try:
        worker.serve()
    except OSError:
        return 1  # nobody listens any more
    return 0


class Worker(object):
    """Everything that the log reader knows."""

    def __init__(self, config, requests, outbox):
        # type: (dict[str, Any], Requests, Outbox) -> None
        self._requests = requests
        self._outbox = outbox
        self._poll_s = float(config.get("poll_s", 0.25))
        self._marker = ActivityMarker(*config["marker"])
        self._numbers = Numbers(int(config.get("next_id", 1)))
        self._ruleset, bad_rules = load(config.get("rules"), config.get("suspended", {}))
        self._ruleset.entered, self._ruleset.left = self._marker.rule, self._marker.after_rule
        self._stretches = Stretches(config.get("careful", {}), config.get("skipped", {}))
        self._sieve = Sieve(self._ruleset)
        mounts = Mounts(str(config.get("proc", "/proc")))
        self._catalog = Catalog(mounts, self._scanner_of, time.monotonic, self._marker.file)
        self._catalog.blocked = dict(config.get("blocked", {}))
        self._catalog.places = dict(config.get("places", {}))
        self._finder = Finder(config, self._catalog, self._marker)
        self._discovery = Discovery(config, self._catalog, mounts, self._marker, self._ruleset, self._sieve)
        self._checkpoints = CheckpointFiles(self._catalog, self._marker.file)
        self._kernel = KernelLines(
            self._ruleset, self._numbers, config.get("began", 0.0), config.get("records", 0),
            config.get("skipped", {}).get(KERNEL, ()), self._enter_record,
        )  # fmt: skip
        self._reporter = Reporter(
            outbox, self._catalog, self._kernel, self._numbers, self._ruleset, bad_rules
        )
        self._server = Server(self._catalog, self._kernel, outbox)
        self._introduced = time.monotonic() + PATIENCE_S
        self._poll_due = 0.0
        self._tick_s = float(config.get("tick_s", TICK_S))
        self._tick_due = 0.0
        self._turn = []  # type: list[FileEntry]
        """Files that have not had their turn in this round."""

    def serve(self):
        # type: () -> None
        """Go on until the agent closes our stdin, or is gone."""
        busy, paused = True, False
        while not self._requests.ended:
            self._wait(0.0 if busy else self._poll_s if paused else self._poll_due - time.monotonic())
            self._answer()
            self._server.step(self._settled and time.monotonic() >= self._introduced)
            busy, paused = False, self._outbox.paused
            if not paused:
                busy = self._follow()
                if not busy:
                    busy = self._finder.step() or self._discover() or self._backlog_step()
            self._report_progress()
            complete = self._settled and not self._introduced
            misses = {"misses": self._finder.misses} if self._finder.misses else {}
            self._reporter.report(complete, dict(self._discovery.facts(), **misses))
            self._outbox.flush()

    @property
    def _settled(self):
        # type: () -> bool
        """Whether all ways to log files have been gone once."""
        return self._finder.settled and self._discovery.settled

    def _discover(self):
        # type: () -> bool
        """Look for the logs of ended jobs, once it is known what the running ones write."""
        return time.monotonic() >= self._introduced and self._discovery.step()

    def _wait(self, seconds):
        # type: (float) -> None
        reading = [self._requests.fileno()] + self._server.descriptors()
        writing = [self._outbox] if self._outbox.waiting else []
        select.select(reading, writing, [], max(0.0, min(seconds, self._poll_s)))

    # ----------------------------------------------------------------- requests

    def _answer(self):
        # type: () -> None
        for request in self._requests.read():
            if isinstance(request, ValueError):
                continue
            command = request.get("do")
            if command == "processes":
                self._introduced = 0.0
                ranks = {int(local): rank for local, rank in request["local_ranks"].items()}
                self._catalog.written(request["writers"], request["launchers"], ranks)
                self._finder.jobs(request["jobs"])
            elif command == "kernel":
                self._reporter.send(self._kernel.take(request["records"], time.time()))
                self._reporter.beat_soon()
                self._marker.idle()
            elif command == "source":
                self._kernel.source = request["source"]
            elif command == "blocked":
                self._catalog.blocked = request["files"]
            elif command == "leave":
                self._catalog.leave(request.get("files") or [])
                self._reporter.list_soon()
                self._confirm(request["id"])
            elif command == "folders":
                self._discovery.share(request.get("folders") or [])
                self._confirm(request["id"])
            else:
                self._server.answer(request)

    def _confirm(self, number):
        # type: (int | None) -> None
        if number is not None:
            self._outbox.put("A", {"kind": "reply", "id": number, "t": round(time.time(), 3)})

    # ----------------------------------------------------------------- what is new

    def _follow(self):
        # type: () -> bool
        """Give files their turn; whether some still wait for theirs, or for another one."""
        now = time.monotonic()
        if now >= self._poll_due:
            self._poll_due = now + self._poll_s
            entries = self._catalog.entries.values()
            hungry = self._turn  # these had turns already: the others go first
            self._turn = [
                one
                for one in entries
                if one.follower is not None and one.hold_until <= now and one not in hungry
            ] + hungry
            self._end_of_round(now)
        until = now + TURN_S
        again = []  # type: list[FileEntry]
        while self._turn and time.monotonic() < until and not self._outbox.paused:
            entry = self._turn.pop(0)
            if self._read(entry):
                again.append(entry)
        self._turn += again
        return bool(self._turn)

    def _read(self, entry):
        # type: (FileEntry) -> bool
        """One file's turn; whether it gave as much as it may, and has probably more."""
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
            self._server.forget(entry, "{} is another name of a file that is followed now".format(entry.name))
            self._catalog.drop(entry)
            return False
        if piece is None:
            return False
        now, arrived = time.monotonic(), time.time()
        if piece.seam is not None:
            entry.old_until = 0
            self._server.seam(entry, piece.seam)
        elif piece.offset + len(piece.data) <= entry.old_until:
            arrived = min(arrived, follower.entered_at)  # a bar that stood there unfinished
        self._scan(entry, piece.data, piece.offset, arrived, piece.seam is not None)
        entry.lines += piece.data.count(b"\n")
        entry.grown_at, entry.active_at = arrived, now
        if not entry.arrivals or arrived - entry.arrivals[-1][0] >= 1.0:
            entry.arrivals.append((arrived, piece.offset))
        for tail in entry.tails:
            tail.feed(piece.data, piece.offset, arrived, now)
        return entry.held is not None or len(piece.data) >= most

    def _scan_held(self, entry):
        # type: (FileEntry) -> None
        """One step of the backlog that a live piece waits for, or that piece."""
        if entry.backlog is not None and entry.ahead is None:
            self._scan_backlog(entry)
        elif entry.held is not None:
            piece, entry.held = entry.held, None
            self._scan(entry, *piece)

    def _scan(self, entry, data, offset, arrived, seam):
        # type: (FileEntry, bytes, int, float, bool) -> None
        backlog = entry.backlog
        if backlog is not None and backlog.left <= SMALL_BACKLOG and entry.ahead is None:
            entry.held, entry.unscanned = (data, offset, arrived, seam), len(data)
            return
        scanner = entry.scanner
        if entry.backlog is not None and scanner is not None and entry.ahead is None:
            past = scanner.gather
            # what is old is scanned by the other one meanwhile; a recovery ends what either has found
            entry.ahead = scanner = self._scanner_of(entry)
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
        self._feed(entry, scanner, inode, (data, offset, arrived, old), entry.scanned)
        entry.unscanned = 0

    def _feed(self, entry, scanner, inode, piece, scanned):
        # type: (FileEntry, Scanner, int, tuple[bytes, int, float, bool], Callable[[int], None]) -> None
        """Scan a piece (bytes, offset, arrival, backlog); what earlier readers hung on is left out.

        `scanned` gets the number of bytes done, before what is found in them is sent with the place.
        """
        data, offset, arrived, backlog = piece
        packed = packed_inside(data)
        if packed is not None:
            entry.skipped = True
            self._reporter.trouble("{} holds {} data".format(entry.name, packed), "they are not searched")
        first = self._numbers.next
        entry.step.begin()
        for begin, portion, how in self._stretches.cut(entry.path, inode, data, offset):
            scanned(len(portion))
            if how == SKIPPED:
                scanner.seam()
                entry.skipped = True
                continue
            self._marker.scan(entry.path, inode, scanner.unread_from(begin), begin + len(portion))
            self._safely(entry, scanner.feed, portion, begin, arrived, backlog)
            if how == CAREFUL:
                self._safely(entry, scanner.progress, send=self._reporter.progress)
                self._outbox.flush()  # so that lines which are slow together do not look like one that hangs
        entry.step.end(len(data), self._numbers.next - first)
        self._marker.idle()

    def _end_of_round(self, now):
        # type: (float) -> None
        """What has waited long enough for more."""
        self._reporter.send(self._kernel.quiet(time.time()))
        self._reporter.send(self._checkpoints.again(time.monotonic()))
        for entry in self._catalog.entries.values():
            if now - entry.active_at < _ACTIVE_S or now >= entry.quiet_due:
                entry.quiet_due = now + _ACTIVE_S / 4
                for scanner in (entry.scanner, entry.ahead):
                    if scanner is not None:
                        self._enter_scan(entry, scanner)
                        self._safely(entry, scanner.quiet, time.time())
                self._marker.idle()
            for tail in entry.tails:
                tail.quiet(now, time.time())

    # ----------------------------------------------------------------- what was there before

    def _backlog_step(self):
        # type: () -> bool
        """Scan a little of the past of files, first where it took least time; whether there is more."""
        if time.monotonic() < self._introduced:
            return False
        now = time.monotonic()
        until = now + BACKLOG_TURN_S
        entries = [e for e in self._catalog.entries.values() if e.backlog is not None and e.hold_until <= now]
        for entry in sorted(entries, key=_spent):
            self._scan_backlog(entry)
            if time.monotonic() >= until or self._outbox.paused:
                break
        return bool(entries)

    def _scan_backlog(self, entry):
        # type: (FileEntry) -> None
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
            self._feed(entry, scanner, backlog.inode, piece, backlog.scanned)
        if not backlog.left:
            self._end_backlog(entry, backlog, scanner)

    def _end_backlog(self, entry, backlog, scanner):
        # type: (FileEntry, Backlog, Scanner) -> None
        """A part of the backlog is scanned: the older one is next, with a scanner of its own."""
        self._enter_scan(entry, scanner, backlog)
        self._safely(entry, scanner.progress, send=self._reporter.progress)
        self._safely(entry, scanner.past, time.time(), send=self._reporter.progress)
        self._safely(entry, scanner.gather.grown, time.time() + REPORT_EVERY_S)  # what was reported already
        if entry.ahead is not None:
            self._safely(entry, scanner.end)
            entry.scanner, entry.ahead = entry.ahead, None
        entry.active_at = time.monotonic()
        if backlog.older is None:
            backlog.close()
            entry.backlog = None
            self._reporter.place(entry)
        else:
            backlog.go_older()
            entry.ahead, entry.scanner = entry.scanner, self._scanner_of(entry, steps=False)
        self._marker.idle()
        if not any(one.backlog for one in self._catalog.entries.values()):
            self._reporter.list_soon()

    # ----------------------------------------------------------------- how far training is

    def _report_progress(self):
        # type: () -> None
        """What the newest lines of all files report; it waits, and grows newer, while much is to be sent."""
        now = time.monotonic()
        if now < self._tick_due or self._outbox.full:
            return
        self._tick_due = now + self._tick_s
        for entry in self._catalog.entries.values():
            for scanner in (entry.scanner, entry.ahead):
                if scanner is not None:
                    self._enter_scan(entry, scanner)
                    self._safely(entry, scanner.progress, send=self._reporter.progress)
        self._marker.idle()

    # ----------------------------------------------------------------- small things

    def _safely(self, entry, scan, *arguments, **how):
        # type: (FileEntry, Callable[..., list[dict[str, Any]]], Any, Any) -> None
        """Report what a scan finds, as findings or by `send`.

        A fault in it is reported once and ends nothing.
        """
        try:
            found = scan(*arguments)
        except OSError:
            raise
        except Exception as error:
            self._reporter.trouble("scanning {} failed".format(entry.name), repr(error))
            entry.skipped = True
            return
        how.get("send", self._report_findings)(found)
        if found:
            self._reporter.place(entry)

    def _report_findings(self, found):
        # type: (list[dict[str, Any]]) -> None
        """Of a checkpoint with what lies there; what is too young to judge is looked at again."""
        self._reporter.send([self._checkpoints.with_files(finding) for finding in found])

    def _scanner_of(self, entry, steps=True):
        # type: (FileEntry, bool) -> Scanner
        if not is_table_name(entry.name):
            return Scanner(self._ruleset, entry.name, self._numbers, entry.speaker, self._sieve, steps=steps)
        table = TableFile(self._ruleset, lambda: _header_of(entry))
        sieve = TableSieve(self._sieve, table)
        search = LineMatcher(self._ruleset, entry.name)
        rows = TableReader(entry.name, search, sieve, entry.speaker, table) if steps else None
        return Scanner(
            self._ruleset, entry.name, self._numbers, entry.speaker, sieve, progress=rows, steps=False
        )

    def _enter_record(self, number):
        # type: (int) -> None
        self._marker.scan(KERNEL, 0, number, number + 1)

    def _enter_scan(self, entry, scanner, backlog=None):
        # type: (FileEntry, Scanner, Backlog | None) -> None
        """About to look at what a scanner holds of a file, or of all of its backlog."""
        if backlog is not None:
            self._marker.scan(entry.path, backlog.inode, *backlog.whole)
        elif entry.follower is not None and scanner.pending is not None:
            self._marker.scan(entry.path, entry.follower.inode, *scanner.pending)


def _header_of(entry):
    # type: (FileEntry) -> bytes
    """The beginning of a file that is followed."""
    return b"" if entry.follower is None else entry.follower.at(0, HEADER_BYTES)


def _spent(entry):
    # type: (FileEntry) -> tuple[bool, float]
    """The newest parts of all files come before the older ones."""
    return entry.backlog is not None and entry.backlog.second, entry.step.spent_s
