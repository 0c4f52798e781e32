"""The log reader: a child process of the agent, in which files are read and searched.

One loop with short steps: requests first, then new data (`file_turns`), then globs, then backlogs
(`backlog_scan`). Anything that may never return (a pattern, a dead mount) is announced by an activity marker;
the agent kills a reader that sends nothing, and starts another one without it.
"""

import select
import time

from ..base.requests import Requests
from .backlog_scan import BacklogScan
from .checkpoints.lookup import CheckpointFiles
from .discovery.discovery import Discovery
from .discovery.finder import Finder
from .file_scanners import FileScanners
from .file_turns import FileTurns
from .files.catalog import Catalog
from .files.mounts import Mounts
from .guarded_scan import GuardedScan
from .ipc.activity_marker import ActivityMarker
from .ipc.lifeline import die_with
from .ipc.outbox import Outbox
from .load_rules import load
from .queries.kernel_lines import NAME as KERNEL
from .queries.kernel_lines import KernelLines
from .queries.server import Server
from .reporter import Numbers, Reporter
from .watchdog.stretches import Stretches

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, BinaryIO

TICK_S = 1.0
"""Seconds between progress reports, however many steps are written."""
PATIENCE_S = 3.0
"""Seconds that the backlog waits for the first process list, which gives the files' writers."""
MAX_MESSAGE = 16 << 20
IDLE_POLLS = 4
"""Polls that are left out while no file is followed."""


def run(config: "dict[str, Any]", stdin: "BinaryIO", stdout: "BinaryIO") -> int:
    """Read logs until `stdin` ends; return the exit status."""
    die_with(config["parent"])
    worker = Worker(config, Requests(stdin, MAX_MESSAGE), Outbox(stdout.fileno()))
    try:
        worker.serve()
    except OSError:
        return 1  # the agent is gone
    return 0


class Worker(object):
    """The log reader's loop and its state."""

    def __init__(self, config: "dict[str, Any]", requests: "Requests", outbox: "Outbox") -> None:
        self._requests = requests
        self._outbox = outbox
        self._poll_s = float(config.get("poll_s", 0.25))
        self._marker = ActivityMarker(*config["marker"])
        self._numbers = Numbers(int(config.get("next_id", 1)))
        self._ruleset, bad_rules = load(config.get("rules"), config.get("suspended", {}))
        self._ruleset.entered, self._ruleset.left = self._marker.rule, self._marker.after_rule
        scanners = FileScanners(self._ruleset, self._numbers)
        mounts = Mounts(str(config.get("proc", "/proc")))
        self._catalog = Catalog(mounts, scanners.of, time.monotonic, self._marker.file)
        self._catalog.blocked = dict(config.get("blocked", {}))
        self._catalog.places = dict(config.get("places", {}))
        self._finder = Finder(config, self._catalog, self._marker)
        self._discovery = Discovery(
            config, self._catalog, mounts, self._marker, self._ruleset, scanners.prefilter
        )
        self._checkpoints = CheckpointFiles(self._catalog, self._marker.file)
        self._kernel = KernelLines(
            self._ruleset, self._numbers, config.get("began", 0.0), config.get("records", 0),
            config.get("skipped", {}).get(KERNEL, ()), self._enter_record,
        )  # fmt: skip
        self._reporter = Reporter(
            outbox, self._catalog, self._kernel, self._numbers, self._ruleset, bad_rules
        )
        self._server = Server(self._catalog, self._kernel, outbox)
        stretches = Stretches(config.get("careful", {}), config.get("skipped", {}))
        self._scan = GuardedScan(
            stretches, self._marker, self._checkpoints, self._numbers, self._reporter, outbox
        )
        self._backlog = BacklogScan(self._catalog, self._marker, scanners, self._scan, self._reporter, outbox)
        self._turns = FileTurns(
            self._catalog, self._marker, self._server, scanners, self._scan, self._backlog
        )
        self._introduced_by = time.monotonic() + PATIENCE_S
        self._pids: set[int] = set()
        """The processes that write logs."""
        self._poll_due = 0.0
        self._tick_s = float(config.get("tick_s", TICK_S))
        self._tick_due = 0.0

    def serve(self) -> None:
        """Run until the agent closes stdin or is gone."""
        busy, paused = True, False
        while not self._requests.ended:
            self._wait(0.0 if busy else self._poll_s if paused else self._poll_due - time.monotonic())
            self._answer()
            self._server.step(self._settled and self._introduced)
            busy, paused = False, self._outbox.paused
            if not paused:
                busy = self._follow()
                if not busy:
                    busy = self._finder.step() or (
                        self._introduced and (self._discovery.step() or self._backlog.step())
                    )
            self._report_progress()
            complete = self._settled and not self._introduced_by
            misses = {"misses": self._finder.misses} if self._finder.misses else {}
            self._reporter.report(complete, dict(self._discovery.facts(), **misses), busy)
            self._outbox.flush()

    @property
    def _settled(self) -> bool:
        """Return True if all sources of log files were searched once."""
        return self._finder.settled and self._discovery.settled

    @property
    def _introduced(self) -> bool:
        """Return True if the running processes' files are known, or were waited for long enough."""
        return time.monotonic() >= self._introduced_by

    def _wait(self, seconds: float) -> None:
        reading = [self._requests.fileno()] + self._server.descriptors()
        writing = [self._outbox] if self._outbox.waiting else []
        select.select(reading, writing, [], max(0.0, min(seconds, self._poll_s * IDLE_POLLS)))

    # ----------------------------------------------------------------- requests

    def _answer(self) -> None:
        for request in self._requests.read():
            if isinstance(request, ValueError):
                continue
            command = request.get("do")
            if command == "processes":
                self._introduced_by = 0.0
                pids = {row["pid"] for row in request["writers"]}
                if self._pids - pids:
                    self._discovery.hurry()
                self._pids = pids
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

    def _confirm(self, number: "int | None") -> None:
        if number is not None:
            self._outbox.put("A", {"kind": "reply", "id": number, "t": round(time.time(), 3)})

    # ----------------------------------------------------------------- what the files hold

    def _follow(self) -> bool:
        """Read new data of the followed files; return True if there is more."""
        now = time.monotonic()
        if now >= self._poll_due:
            self._poll_due = now + self._poll_s * (1 if self._catalog.entries else IDLE_POLLS)
            self._turns.begin_round(now)
            self._reporter.send(self._kernel.quiet(time.time()))
            self._reporter.send(self._checkpoints.again(time.monotonic()))
            self._turns.look_at_quiet(now)
        return self._turns.step()

    def _report_progress(self) -> None:
        """Send the progress values in the newest lines of all files.

        Delayed (and updated) while too much waits to be sent.
        """
        now = time.monotonic()
        if now < self._tick_due or self._outbox.full:
            return
        self._tick_due = now + self._tick_s
        for entry in self._catalog.entries.values():
            for scanner in entry.scanners():
                self._scan.progress(entry, scanner)
        self._marker.idle()

    def _enter_record(self, number: int) -> None:
        self._marker.scan(KERNEL, 0, number, number + 1)
