"""One log file of the list: its path, its writers, and the reading position."""

import time
from collections import deque

from ...base.procfs import UNPRINTABLE
from ...ranks.path_ranks import ranks_of_path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable

    from ..scanning.scanner import Scanner
    from .backlog import Backlog
    from .follower import Follower
    from .tails import FollowedTail

KEPT_ARRIVALS = 7200
"""Seconds with new lines whose file position is remembered."""

FIRST_BYTES = 8 * 1024
MIN_BYTES, MAX_BYTES = 4 * 1024, 256 * 1024
AIM_S = 0.02
"""CPU seconds of a turn: 256 KiB of ordinary lines take 5 ms, 256 KiB of 3,000 findings 1.5 s."""
AIM_FINDINGS = 50
"""Findings of a turn."""


FOUND = "found"
"""Source of the log of a job that may have ended before the ranks that run now were started."""
MAX_RANKS = 1024
"""Most ranks that are remembered as writers of a file."""
_ZERO_RANK_FIELDS = ("searched_to", "local_rank")
"""Keys of a row for which 0 is not the default."""


class StepSize(object):
    """Adapts the bytes per turn: fewer where lines are slow to search."""

    def __init__(self, clock: "Callable[[], float]" = time.process_time) -> None:
        self.bytes = FIRST_BYTES
        self.spent_s = 0.0
        """CPU seconds of all turns."""
        self._clock = clock
        self._began = 0.0

    def begin(self) -> None:
        """Begin to measure the CPU time of a turn at the file."""
        self._began = self._clock()

    def end(self, done: int, findings: int) -> None:
        """End a turn in which `done` bytes were searched, and adapt `bytes`."""
        took = self._clock() - self._began
        self.spent_s += took
        share = max(took / AIM_S, findings / AIM_FINDINGS)
        if share > 1.0:
            self.bytes = max(MIN_BYTES, min(self.bytes, int(max(done, MIN_BYTES) / share)))
        elif share < 0.5 and done >= self.bytes:
            self.bytes = min(MAX_BYTES, 2 * self.bytes)


class FileEntry(object):
    """A log file of the list, by its path, with its writers and readers.

    `pids`: the ranks or launchers that write it; `holders`: pid -> descriptor of other processes that do.
    """

    lines_at_end = 0
    """The value of `lines` when the last process that had the file open ended."""
    file_uid: "int | None" = None
    """The user of the file; None: not opened yet, or other ranks than before write to its path."""

    def __init__(self, path: str, source: str, rank: "int | None" = None) -> None:
        self.path = path
        self.name = shown(path)
        """Display name, as sent to the cockpit."""
        self.source = source
        self.state = "following"
        self.reason: str | None = None
        self.retry_at = 0.0
        self.follower: Follower | None = None
        self.scanner: Scanner | None = None
        self.ahead: Scanner | None = None
        """Scanner for live lines while `scanner` is still at the backlog."""
        self.backlog: Backlog | None = None
        self.old_until = 0
        """Bytes before this existed when the agent came."""
        self.tails: list[FollowedTail] = []
        self.size: int | None = None
        self.lines = 0
        self.grown_at: float | None = None
        self.active_at = 0.0
        """When the scanner last got bytes (monotonic)."""
        self.quiet_due = 0.0
        self.visited = False
        """True if the follower has read everything since it was opened."""
        self.skipped = False
        """True if a part was not searched, because reading or scanning it failed or took too long."""
        self.unscanned = 0
        """Bytes read by the follower but not given to the scanner yet."""
        self.step = StepSize()
        self.held: tuple[bytes, int, float, bool] | None = None
        """A live piece (bytes, offset, arrival, after a seam) that waits for the end of a small backlog."""
        self.hold_until = 0.0
        """Time (monotonic) until which the file is listed but not read."""
        self.identity: str | None = None
        self.arrivals: deque[tuple[float, int]] = deque(maxlen=KEPT_ARRIVALS)
        """(unix seconds, offset), at most one per second."""
        self.pids: list[int] = []
        self.holders: dict[int, str] = {}
        self.found_job: str | None = None
        """Its job, from the way it was found."""
        self.last_at: float | None = None
        self.last_lines: list[str] = []
        """For an ended job's log: its last lines; `last_at`: time of the last one."""
        self.owner: str | None = None
        """Name of the user who owns such a file."""
        self._glob_rank = rank
        self._path_rank, self._path_local = ranks_of_path(path)
        self._spoken: dict[str, Any] = {}
        self._ranks: list[int] = []
        self._jobs: set[str] = set()
        self._places: dict[int, int] = {}

    def written_by(
        self, writers: "list[dict[str, Any]]", launchers: "list[int]", places: "dict[int, int]"
    ) -> None:
        """Set the processes that have the file open, and the global rank of each local rank of this node.

        The last writer is remembered after its end, when the file matters most. A file that several ranks
        wrote belongs to all of them as long as one of them, or their job, writes it: the last lines of an
        ended rank may be read after its end.
        """
        before, self.pids = self.pids, sorted(writer["pid"] for writer in writers) or sorted(launchers)
        self._places = places or self._places
        if not writers:
            return
        if before and set(before).isdisjoint(self.pids):
            self.file_uid = None
        jobs = {writer["job"] for writer in writers if writer.get("job")}
        ranks = {writer["rank"] for writer in writers if writer.get("rank") is not None}
        same_job = len(self._ranks) > 1 and jobs == self._jobs
        if same_job or not set(before).isdisjoint(self.pids):
            ranks.update(self._ranks[:MAX_RANKS])
            jobs.update(sorted(self._jobs)[:MAX_RANKS])
        self._jobs = jobs
        self._ranks = sorted(ranks)
        spoken: dict[str, Any] = {}
        if len(self._ranks) == 1:
            spoken = {"rank": self._ranks[0], "rank_from": "process"}
            local = {writer.get("local_rank") for writer in writers}
            if len(local) == 1 and None not in local:
                spoken["local_rank"] = local.pop()
        if len(jobs) == 1:
            spoken["job"] = next(iter(jobs))
        self._spoken = spoken

    def speaker(self) -> "dict[str, Any]":
        """Return what is known of the file's writer: `rank`, `rank_from`, `local_rank`, `job`.

        Values that the processes do not show come from the path.
        """
        found = dict(self._spoken)
        if self.found_job is not None and not self._ranks:
            found.setdefault("job", self.found_job)
        if "rank" in found or len(self._ranks) > 1:
            return found
        rank = self._glob_rank if self._glob_rank is not None else self._path_rank
        if self._path_local is not None:
            found["local_rank"] = self._path_local
            if rank is None and self.source != FOUND:
                rank = self._places.get(self._path_local)
        if rank is not None:
            found["rank"], found["rank_from"] = rank, "path"
        return found

    def scanners(self) -> "list[Scanner]":
        """Return the file's scanners: that of the backlog (or the only one), then that of live lines."""
        return [each for each in (self.scanner, self.ahead) if each is not None]

    def place(self) -> "list[int]":
        """Return the reading position: device, inode, next byte; then the backlog's, if any; [] if not open.

        For the backlog: its next byte, its end, and the start of the older part, if any.
        """
        follower = self.follower
        if follower is None:
            return []
        here = [follower.device, follower.inode, follower.offset - self.unscanned]
        if self.backlog is None:
            return here
        begin, end = self.backlog.span
        here += [begin if self.scanner is None else self.scanner.unread_from(begin), end]
        return here if self.backlog.older is None else here + [self.backlog.older]

    def scanned(self, count: int) -> None:
        """Record that the scanner received `count` more bytes."""
        self.unscanned -= count

    def searched_to(self) -> "int | None":
        """Return the offset up to which all of the file was searched; None while unknown."""
        if self.follower is None or self.backlog is not None or self.skipped or not self.visited:
            return None
        offset = self.follower.offset - self.unscanned
        return offset if self.scanner is None else self.scanner.searched_to(offset)

    def row(self) -> "dict[str, Any]":
        """Return the file as a dict with the keys of `wire.LogFile`."""
        spoken = self.speaker()
        backlog = self.backlog
        follower = self.follower
        row = {
            "path": self.name,
            "state": "gone" if follower is not None and follower.gone else self.state,
            "reason": self.reason,
            "source": self.source,
            "size": self.size if follower is None else follower.size,
            "lines": self.lines,
            "grown_at": self.grown_at,
            "backlog_pct": None if backlog is None else backlog.pct(),
            "searched_from": 0 if backlog is None else backlog.searched_from,
            "searched_to": self.searched_to(),
            "seams": 0 if follower is None else follower.seams,
            "ranks": self._ranks or [rank for rank in [spoken.get("rank")] if rank is not None],
            "rank_from": spoken.get("rank_from", "process" if self._ranks else None),
            "local_rank": spoken.get("local_rank"),
            "job": spoken.get("job"),
            "pids": self.pids or sorted(self.holders),
            "identity": self.identity,
            "fingerprint": None if follower is None else follower.fingerprint(),
            "last_at": self.last_at if self.lines == self.lines_at_end else None,
            "last_lines": self.last_lines if self.lines == self.lines_at_end else [],
            "owner": self.owner,
        }
        return {
            key: value
            for key, value in row.items()
            if value not in (None, [], 0) or key == "size" or (key in _ZERO_RANK_FIELDS and value is not None)
        }


def shown(path: str) -> str:
    """Return a path as displayable text: invalid and invisible characters are escaped."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return UNPRINTABLE.sub(lambda found: found.group().encode("unicode_escape").decode("ascii"), text)
