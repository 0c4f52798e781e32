"""The list of log files from all sources, each followed once, at most `MAX_FILES`."""

import os
import stat
import time
from collections import OrderedDict

from .backlog import Backlog
from .entry import FileEntry
from .follower import Follower
from .packing_magic import packing_by_magic
from .pages import line_start
from .room import TRUST, file_to_drop

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable

    from ..scanning.scanner import Scanner
    from .mounts import Mounts

MAX_FILES = 512
RETRY_S = 10.0
"""Seconds after which an unreadable file is retried."""
KEPT_FINISHED = 4096
SMALL_BACKLOG = 2 << 20
"""Backlog size up to which it is scanned before live lines, so that one scanner sees the whole file."""
HOLD_S = 4.0
"""Seconds that a shared file is left alone at first, until the cockpit names the node that follows it."""


class Catalog(object):
    """The log files that are followed, by path. `enter` is called with a path before it is accessed."""

    def __init__(
        self,
        mounts: "Mounts",
        scanner_of: "Callable[[FileEntry], Scanner]",
        clock: "Callable[[], float]",
        enter: "Callable[[str], object]",
    ) -> None:
        self.entries: OrderedDict[str, FileEntry] = OrderedDict()
        self.left_out: set[str] = set()
        """Paths over `MAX_FILES`."""
        self.places: dict[str, list[int]] = {}
        """Path -> `FileEntry.place`: position of the previous reader."""
        self.blocked: dict[str, str] = {}
        """Path -> why it must not be accessed."""
        self._mounts = mounts
        self._scanner_of = scanner_of
        self._clock = clock
        self._enter = enter
        self._pseudo = _devices("/proc", "/sys")
        self._elsewhere: set[str] = set()
        self._writers: dict[str, list[dict[str, Any]]] = {}
        self._launchers: dict[str, list[int]] = {}
        self._local_ranks: dict[int, int] = {}
        self._finished: OrderedDict[tuple[int, int], int] = OrderedDict()

    # ----------------------------------------------------------------- what there is

    def named(self, name: str) -> "FileEntry | None":
        """Return the followed file whose display name is `name`, or None."""
        found = self.entries.get(name)
        if found is not None and found.name == name:
            return found
        return next((entry for entry in self.entries.values() if entry.name == name), None)

    def add(
        self, path: str, source: str, rank: "int | None" = None, fresh: bool = False, job: "str | None" = None
    ) -> None:
        """Add a found file, unless it is listed, refused, or there are too many.

        `fresh`: it did not exist at the last look, so all of its content is new. `rank`, `job`: its writer's,
        from the way it was found.
        """
        known = self.entries.get(path)
        if known is not None:
            if TRUST[source] < TRUST[known.source]:
                known.source = source
            known.found_job = job or known.found_job
            return
        if len(self.entries) >= MAX_FILES and not self._make_room(path, source):
            self.left_out.add(path)
            return
        self._enter(path)
        if path not in self.blocked and not self._wanted(path, source):
            return
        self.left_out.discard(path)
        entry = self.entries[path] = FileEntry(path, source, rank)
        entry.found_job = job
        self._introduce(entry)
        self._begin(entry, fresh)
        if entry.identity is not None:
            entry.hold_until = self._clock() + HOLD_S

    def written(
        self,
        rows: "Iterable[dict[str, Any]]",
        launchers: "Iterable[dict[str, Any]]",
        local_ranks: "dict[int, int]",
    ) -> None:
        """Set the processes that write log files, and follow these files.

        `rows`: pid, paths, rank, local_rank and job of each. Launchers (pid, paths, job) write what ranks
        print into their pipes, and how ranks ended. `local_ranks`: local -> global rank.
        """
        self._writers, self._launchers, self._local_ranks = {}, {}, local_ranks
        here: dict[tuple[int, int], str] = {}
        for row in rows:
            for path in sorted({self._one_path(path, here) for path in row["paths"]}):
                self._writers.setdefault(path, []).append(row)
        for path in self._writers:
            self.add(path, "process")
        for row in launchers:
            for path in row["paths"]:
                self._launchers.setdefault(path, []).append(row["pid"])
                self.add(path, "process", job=row.get("job"))
                if path in self.entries and path not in self._writers:
                    self.entries[path].found_job = row.get("job")
        for entry in self.entries.values():
            self._introduce(entry)

    def starts(self) -> "list[tuple[str, float, int | None]]":
        """Return (path, start of its first rank in unix seconds, its rank) for the files that ranks write.

        The rank is None if several ranks write the file.
        """
        found = []
        for path, rows in self._writers.items():
            mine = [row for row in rows if row.get("rank") is not None and row.get("start")]
            ranks = {row["rank"] for row in mine}
            if mine:
                found.append(
                    (path, min(row["start"] for row in mine), ranks.pop() if len(ranks) == 1 else None)
                )
        return found

    def _one_path(self, path: str, here: "dict[tuple[int, int], str]") -> str:
        """Return the path by which to follow a file that processes in containers see at several paths.

        `here`: (device, inode) -> the path met first.
        """
        if not path.startswith("/proc/") or path in self.blocked:
            return path
        self._enter(path)
        try:
            found = os.stat(path)
        except OSError:
            return path
        key = found.st_dev, found.st_ino
        for entry in self.entries.values():
            if entry.follower is not None and (entry.follower.device, entry.follower.inode) == key:
                return entry.path
        return here.setdefault(key, path)

    def _introduce(self, entry: "FileEntry") -> None:
        path = entry.path
        entry.written_by(self._writers.get(path, []), self._launchers.get(path, []), self._local_ranks)

    def leave(self, paths: "Iterable[str]") -> None:
        """Stop following these files, which another node's agent follows; follow all others here."""
        self._elsewhere = set(paths)
        for entry in self.entries.values():
            entry.hold_until = 0.0
            if entry.name in self._elsewhere and entry.state == "following":
                self._put_down(entry)
                entry.state, entry.reason = "elsewhere", "another node's agent follows it"
            elif entry.name not in self._elsewhere and entry.state == "elsewhere":
                self._begin(entry, False)

    def retry(self) -> None:
        """Retry unreadable files."""
        now = self._clock()
        for entry in list(self.entries.values()):
            if entry.state == "unreadable" and now >= entry.retry_at and entry.path not in self.blocked:
                self._enter(entry.path)
                self._begin(entry, False)

    def failed(self, entry: "FileEntry", error: OSError) -> None:
        """Mark a file as unreadable and stop following it; `retry` tries it again later."""
        self._put_down(entry)
        entry.state, entry.reason = "unreadable", error.strerror or str(error)
        entry.retry_at = self._clock() + RETRY_S

    def note_finished(self, follower: "Follower") -> None:
        """Store the files that a follower read to their end before they were rotated away.

        A glob may find their new names.
        """
        for device, inode, offset in follower.finished:
            self._finished[device, inode] = offset
        del follower.finished[:]
        while len(self._finished) > KEPT_FINISHED:
            self._finished.popitem(last=False)

    # ----------------------------------------------------------------- to begin and to end

    def _wanted(self, path: str, source: str) -> bool:
        """Return True if a path is a regular file that is not followed under another name or finished.

        A missing file counts if a process or Slurm named it, and so does one that cannot be examined.
        """
        try:
            found = os.stat(path)
        except OSError as error:
            return source in ("process", "slurm") or not isinstance(error, FileNotFoundError)
        if not stat.S_ISREG(found.st_mode) or found.st_dev in self._pseudo:
            return False
        here = (found.st_dev, found.st_ino)
        if here in self._finished and self._finished[here] >= found.st_size:
            return False
        return not self._followed(here)

    def _followed(self, here: "tuple[int, int]", besides: "FileEntry | None" = None) -> bool:
        """Return True if the file (device, inode) is followed, `besides` not counted."""
        return any(
            entry.follower is not None
            and entry is not besides
            and (entry.follower.device, entry.follower.inode) == here
            for entry in self.entries.values()
        )

    def _make_room(self, path: str, source: str) -> bool:
        """Drop a file for one of a source; return False if there is none to drop."""
        self._enter(path)
        dropped = None if path in self.blocked else file_to_drop(self.entries.values(), path, source)
        if dropped is None:
            return False
        if dropped.follower is None or not dropped.follower.gone:
            self.left_out.add(dropped.path)
        self.drop(dropped)
        return True

    def drop(self, entry: "FileEntry") -> None:
        """Stop following a file and remove it from the list, with its position."""
        self._put_down(entry)
        self.places.pop(entry.path, None)
        self.entries.pop(entry.path, None)

    def _begin(self, entry: "FileEntry", fresh: bool) -> None:
        if entry.path in self.blocked:
            entry.state, entry.reason = "unreadable", self.blocked[entry.path]
            return
        if entry.name in self._elsewhere:
            entry.state, entry.reason = "elsewhere", "another node's agent follows it"
            self._identify(entry)
            return
        follower = Follower(entry.path, self._clock, lambda here: self._followed(here, entry), entry.file_uid)
        try:
            follower.open()
            entry.file_uid = follower.owner
            _refuse_packed(follower)
            self._list_mounts(entry, follower)
            self._from_where(entry, follower, fresh)
        except OSError as error:
            follower.close()
            self.failed(entry, error)
            return
        entry.follower, entry.state, entry.reason = follower, "following", None
        entry.visited = entry.skipped = False
        if entry.grown_at is None and follower.size:
            entry.grown_at = min(time.time(), follower.entered_at)

    def _from_where(self, entry: "FileEntry", follower: "Follower", fresh: bool) -> None:
        """Open the given follower where its reading begins, and set the entry's scanner and backlog.

        It begins at the position of an earlier reader, or where the file was read to before it was renamed,
        else at byte 0 of a new file to `SMALL_BACKLOG`, else after the last complete line, with a backlog
        before it.
        """
        place = self.places.pop(entry.path, None)
        done = self._finished.get((follower.device, follower.inode))
        if place is not None and place[:2] == [follower.device, follower.inode]:
            follower.open(line_start(follower.at, place[2]))  # half a line was read, and is scanned whole
            entry.scanner = self._scanner_of(entry)
            if len(place) > 3:
                entry.backlog = Backlog(entry.path, place[4], place[3], *place[5:])
            return
        if done is not None and done <= follower.size:
            follower.open(done)
        elif fresh and follower.size <= SMALL_BACKLOG:
            follower.open(0)
        else:
            end = _last_line(follower)
            if end:
                entry.backlog = Backlog(entry.path, end)
            entry.old_until = follower.size
            follower.open(end)
        entry.scanner = self._scanner_of(entry)

    def _put_down(self, entry: "FileEntry") -> None:
        """Close a file's readers and remember its position."""
        if entry.follower is not None:
            follower = entry.follower
            self.places[entry.path] = entry.place()
            entry.size = follower.size
            follower.close()
        if entry.backlog is not None:
            entry.backlog.close()
        entry.follower = entry.scanner = entry.ahead = entry.backlog = entry.held = None
        entry.unscanned = 0

    def _identify(self, entry: "FileEntry") -> None:
        try:
            found = os.stat(entry.path)
        except OSError:
            return
        entry.size, entry.identity = found.st_size, self._mounts.identity(found.st_dev, found.st_ino)

    def _list_mounts(self, entry: "FileEntry", follower: "Follower") -> None:
        entry.identity = self._mounts.identity(follower.device, follower.inode)
        follower.remote = entry.identity is not None


def _refuse_packed(follower: "Follower") -> None:
    packing = packing_by_magic(follower.at(0, 8))
    if packing is not None:
        raise OSError("packed ({}): only `gpuwatch scan` reads it".format(packing))


def _last_line(follower: "Follower") -> int:
    """Return the offset after the last complete line of a followed file, at most 64 KiB before its end."""
    reach = 64 * 1024
    begin = max(0, follower.size - reach)
    data = follower.at(begin, follower.size - begin)
    return begin + max(data.rfind(b"\n"), data.rfind(b"\r")) + 1


def _devices(*folders: str) -> "frozenset[int]":
    """Return the device numbers of folders such as /proc, in whose file systems no file may be read.

    A reader of /proc/kmsg takes its records from others.
    """
    return frozenset(os.stat(folder).st_dev for folder in folders if os.path.isdir(folder))
