"""Searches for logs of ended jobs at the start and at intervals, and adds them to the catalog."""

import os
import pwd
import time

from ...base.procfs import clean
from ...base.user_rights import in_turns
from ...ranks.path_ranks import ranks_of_path
from .holders import held_files, is_same_file, still_held
from .launch_records.recorded_folders import RecordedFolders
from .reopened import reopened_logs
from .siblings import sibling_logs
from .start_folders import StartFolders
from .tail import LogTail
from .walk import WINDOW_S, LogCandidate, Walk

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

    from ...base.user_rights import UserRights
    from ..files.catalog import Catalog
    from ..files.entry import FileEntry
    from ..files.mounts import Mounts
    from ..ipc.activity_marker import ActivityMarker
    from ..matching.prefilter import Prefilter
    from ..matching.ruleset import RuleSet

ANSWER_S = 2.0
"""Seconds to wait for the cockpit's assignment of a network file system."""
AGAIN_S = 60.0
"""Seconds between searches; a job that dies within seconds may never appear in a process list."""
SOON_S = 5.0
"""As `AGAIN_S`, after an unlisted process was seen writing: it may end before it is listed."""
ENDED_S = 2.0
"""As `AGAIN_S`, after a process that wrote logs has ended: an error file may lie elsewhere."""
APART_S = 15.0
"""Shortest interval in seconds between two searches for logs."""
MAX_SOON = 6
HOLDERS_S = 2.0
"""Seconds between checks whether the unlisted processes that write a log still run."""
STEP_S = 0.02
BUDGET_S = 2.0
"""CPU seconds per search in total; the walk through the folders takes at most half of them."""
SEARCH_TIMEOUT_S = 20.0
"""Seconds per search in total, on a slow file system or a busy node; half of them for the walk."""
MAX_TAILS = 512
"""Most files that a search opens, newest first."""


class Discovery(object):
    """Searches for logs of ended jobs in steps. Call `step` when no other work is due.

    It does nothing unless `discover` is set in the config.
    """

    def __init__(
        self,
        config: "dict[str, Any]",
        catalog: "Catalog",
        mounts: "Mounts",
        marker: "ActivityMarker",
        ruleset: "RuleSet",
        prefilter: "Prefilter",
    ) -> None:
        self._on = bool(config.get("discover"))
        self._proc = str(config.get("proc", "/proc"))
        self._earlier = [str(folder) for folder in config.get("earlier_folders", ())]
        self._catalog = catalog
        self._mounts = mounts
        self._marker = marker
        self._ruleset = ruleset
        self._prefilter = prefilter
        self._recorded = RecordedFolders(self._proc, self._enter, self._is_blocked)
        self._records = self._recorded.steps()
        self._work: Iterator[None] | None = None
        self._due = 0.0
        self._spent = self._cpu = self._searched_at = 0.0
        self._users: dict[int, str] = {}
        self._known: dict[str, tuple[float, int]] = {}
        """Path -> modification time and size of files that are no training logs."""
        self._shared: dict[str, tuple[str, str]] = {}
        """Folder on a network file system -> its identity and facts that only a node that sees it knows."""
        self._ours: list[str] | None = None
        """Folders assigned to this node; None: no assignment yet."""
        self._answer_due: float | None = None
        self._looked = False
        self._soon = 0
        """Number of repeats after `SOON_S`."""
        self._held = False
        """True if the last search met unfollowed files that are being written."""
        self._holders_due = 0.0
        self.cut = False
        """True if a limit ended the last search early."""

    @property
    def settled(self) -> bool:
        """Return True if the search has run and awaits no shared folders, or if it never will run."""
        if not self._on:
            return True
        waits = self._shared and self._ours is None
        return self._looked and not (waits and time.monotonic() < (self._answer_due or 0.0))

    def share(self, folders: "list[str]") -> None:
        """Set the network folders that this node must search; folders that it did not report are ignored."""
        ours = [folder for folder in folders if folder in self._shared]
        if ours and ours != self._ours:
            self._looked, self._due = False, 0.0
        self._ours = ours

    def facts(self) -> "dict[str, Any]":
        """Return the keys of `wire.Logs` that differ from the default: `shared`, `search_cut`."""
        shared = [
            {"path": path, "identity": self._shared[path][0], "fingerprint": self._shared[path][1]}
            for path in sorted(self._shared)
        ]
        facts: dict[str, Any] = {"shared": shared, "search_cut": self.cut}
        return {key: value for key, value in facts.items() if value}

    def hurry(self) -> None:
        """Make the next search, after the first, start soon, since a process that wrote logs has ended."""
        soon = max(time.monotonic() + ENDED_S, self._searched_at + APART_S)
        if self._work is None and self._looked:
            self._due = min(self._due, soon)

    def step(self) -> bool:
        """Search for log files for about STEP_S seconds; return True if more steps are due at once."""
        if self._on and time.monotonic() >= self._holders_due:
            self._holders_due = time.monotonic() + HOLDERS_S
            self._check_holders()
        if not self._on or (self._work is None and time.monotonic() < self._due):
            return False
        if self._work is None:
            self._work, self._spent, self._cpu, self.cut = self._search(), 0.0, 0.0, False
        before, before_cpu = self._spent - time.monotonic(), self._cpu - time.process_time()
        began = time.monotonic()
        for _ in self._work:
            now = time.monotonic()
            self._spent, self._cpu = before + now, before_cpu + time.process_time()
            if self._is_over(1.0):
                self.cut = True
                break
            if now - began > STEP_S:
                return True
        soon = self._held and self._soon < MAX_SOON
        self._searched_at = time.monotonic()
        self._work, self._due = None, self._searched_at + (SOON_S if soon else AGAIN_S)
        self._soon += soon
        self._looked = True
        if self._answer_due is None:
            self._answer_due = time.monotonic() + ANSWER_S
        return False

    def _is_over(self, share: float) -> bool:
        """Return True if this search has used a share (0 to 1) of the time that it may take."""
        return self._cpu > share * BUDGET_S or self._spent > share * SEARCH_TIMEOUT_S

    def _search(self) -> "Iterator[None]":
        left_out: list[str] = []
        starts = self._catalog.starts()
        for path, rank in list(sibling_logs(starts, self._enter, self._is_blocked, left_out)):
            self._take_sibling(path, rank)
            yield
        for fresh in list(reopened_logs(starts, self._enter, self._is_blocked, left_out)):
            self._take_reopened(fresh)
            yield
        for _ in self._records:  # read once: what ends from now on is seen in /proc
            yield
        below = StartFolders(self._enter, self._is_blocked)
        below.take(self._proc, self._earlier)
        below.take_recorded(self._recorded.folders)
        walk = Walk(self._assigned(below.found), time.time(), self._enter, self._is_blocked)
        for _ in walk.steps():
            yield
            walk.cut = walk.cut or self._is_over(0.5)
        new = [one for one in walk.found if self._is_new(one)]
        newest = sorted(new, key=lambda one: -one.modified)
        new = [one for one, _ in in_turns([(one, one.uid) for one in newest])][:MAX_TAILS]
        held, some_are_missing = held_files(self._proc, frozenset(one.path for one in new))
        self.cut = walk.cut or below.cut or self._recorded.cut or len(newest) > MAX_TAILS
        self.cut = self.cut or bool(left_out) or some_are_missing
        self._held = any(one.path in held for one in new)
        yield
        for one in new:
            if one.path not in held and not self._is_blocked(one.path):
                self._enter(one.path)
                self._take(one, {})
                yield
        for path, holders in held.items():
            if not self._is_blocked(path):
                self._enter(path)
                self._take_held(path, holders)
                yield

    def _assigned(self, starts: "list[tuple[str, UserRights]]") -> "list[tuple[str, UserRights]]":
        """Return the (folder, rights) to search now: of network file systems only assigned ones.

        Sets `_shared`.
        """
        folders = []
        for folder, rights in starts:
            try:
                status = os.stat(folder)
            except OSError:
                continue
            identity = self._mounts.identity(status.st_dev, status.st_ino)
            if identity is not None:
                marks = (status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
                self._shared[folder] = identity, ":".join("{:x}".format(mark) for mark in marks)
            if identity is None or folder in (self._ours or ()):
                folders.append((folder, rights))
        return folders

    def _is_new(self, one: "LogCandidate") -> bool:
        return one.path not in self._catalog.entries and self._known.get(one.path) != _state(one)

    def _take_sibling(self, path: str, rank: "int | None") -> None:
        """Follow the log of a rank that has ended while its job still runs.

        It does not become the log of an ended job.
        """
        if path in self._catalog.entries:
            return
        self._enter(path)
        try:
            tail = LogTail(path)
        except OSError:
            return
        self._catalog.add(path, "found", rank)
        entry = self._catalog.entries.get(path)
        if entry is not None:
            entry.last_lines = tail.lines

    def _take_reopened(self, one: "LogCandidate") -> None:
        """Follow a log with training steps that a running job's program only opens to write a line."""
        if not self._is_new(one):
            return
        self._enter(one.path)
        try:
            tail = LogTail(one.path)
        except OSError:
            return
        if tail.is_training(self._ruleset, self._prefilter, steps_only=True):
            self._catalog.add(one.path, "found", tail.rank())

    def _take_held(self, path: str, holders: "dict[int, str]") -> None:
        """Follow a log that unlisted processes (`holders`) of unknown ranks write, or renew its holders."""
        entry = self._catalog.entries.get(path)
        if entry is not None:
            if entry.source == "found":
                entry.holders = holders
            return
        try:
            one = LogCandidate(path, os.lstat(path))
        except OSError:
            return
        if self._is_new(one) and is_same_file(self._proc, path, holders):
            self._take(one, holders)

    def _check_holders(self) -> None:
        """Remove holders that have ended; a log without holders is from then on that of an ended job."""
        for entry in self._catalog.entries.values():
            if not entry.holders:
                continue
            entry.holders = still_held(self._proc, entry.path, entry.holders)
            if not entry.holders and entry.source == "found" and not self._is_blocked(entry.path):
                self._enter(entry.path)
                self._note_end(entry)

    def _note_end(self, entry: "FileEntry") -> None:
        try:
            tail = LogTail(entry.path)
        except OSError:
            return
        entry.last_at, entry.last_lines = tail.at or tail.modified, tail.lines
        entry.lines_at_end = entry.lines

    def _take(self, one: "LogCandidate", holders: "dict[int, str]") -> None:
        """Follow a file if it is the log of a recently ended training, or of one that `holders` write."""
        try:
            tail = LogTail(one.path)
        except OSError:
            return
        last = one.modified if tail.at is None else tail.at
        old = last < time.time() - WINDOW_S and not holders
        if old or not tail.is_training(self._ruleset, self._prefilter, steps_only=bool(holders)):
            self._known[one.path] = _state(one)
            return
        of_one = ranks_of_path(one.path)[1] is not None
        self._catalog.add(one.path, "found", tail.rank() if of_one else None)
        entry = self._catalog.entries.get(one.path)
        if entry is not None:
            entry.last_lines, entry.owner, entry.holders = tail.lines, self._user(one.uid), holders
            entry.last_at = None if holders else last

    def _user(self, uid: int) -> str:
        if uid not in self._users:
            try:
                self._users[uid] = clean(pwd.getpwuid(uid).pw_name, 64)
            except KeyError:
                self._users[uid] = str(uid)
        return self._users[uid]

    def _enter(self, path: str) -> None:
        self._marker.file(path)

    def _is_blocked(self, path: str) -> bool:
        return path in self._catalog.blocked


def _state(one: "LogCandidate") -> "tuple[float, int]":
    return one.modified, one.size
