"""Finds recently written log files below a few folders, with limits and in short steps."""

import os
import re
import stat
from collections import deque

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Generator, Iterator, Sequence

    from ...base.user_rights import UserRights

MAX_DEPTH = 3
"""Depth below a start folder; folders made by launchers or loggers do not count."""
MAX_ENTRIES = 5000
"""Entries per walk; the last turn of a start folder may exceed it by `TURN`."""
TURN = 50
"""Entries of a start folder that are read before the next start folder has its turn."""
WINDOW_S = 6 * 3600.0
"""Seconds since the last write within which a log is considered."""
AHEAD_S = 300.0
"""Seconds by which a file's time may be in the future (clocks of file servers and nodes differ)."""

_LOG_NAME = re.compile(
    r"\.(?:log|txt|out|err|stdout|stderr|[oe]\d{1,10})(?:[.-]\d{1,6})?$|^(?:std(?:out|err)|error\.json)$"
)
_LOG_WORD = re.compile(
    r"(?i)(?:^|[._-])(?:logs?|out|err|output|stdout|stderr|nohup|console|slurm|train|training|rank|worker|task|node)"
    r"[._-]?\d{0,6}(?=[._-]|$)"
)
_ENDING = re.compile(r"\.([A-Za-z][A-Za-z0-9]{0,11})$")
_ENDINGS = re.compile(r"(?i)(?:log|out|err|rank|worker|task|node|local|proc|host|old|prev|bak)\d{0,6}$")
"""Suffixes of logs for a rank, node or copy (`out.rank3`, `run.log.old`)."""
_NO_LOG_FOLDERS = frozenset(("node_modules", "site-packages", "dist-packages", "__pycache__"))
SAVED_SCREEN_NAME = re.compile(r"gpuwatch-\d{8}-\d{6}(?:-\d+)?\.(?:txt|svg)$")
"""A screen that gpuwatch saved (Ctrl+O): it shows lines of logs, and is none."""
_UNFINISHED_BUNDLE = ".zip.part"
"""End of the name of the folder in which gpuwatch collects logs for an evidence bundle."""
_MADE_BY_TOOLS = re.compile(
    r"(?:wandb|run-\d{8}_\d{6}-\w{1,64}|files|lightning_logs|version_\d{1,6}|outputs|multirun"
    r"|\d{4}-\d{2}-\d{2}|\d{2}-\d{2}-\d{2}|torchelastic_\w{1,64}|attempt_\d{1,6}|none_\w{1,64}"
    r"|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}_\w{8}|\d{1,4})"
)


class LogCandidate(object):
    """A recently written log file: its path, size, times."""

    __slots__ = ("modified", "path", "size", "uid")

    def __init__(self, path: str, status: "os.stat_result") -> None:
        self.path = path
        self.modified = status.st_mtime
        self.size = status.st_size
        self.uid = status.st_uid


class Walk(object):
    """Walks folders level by level, newest first; does not follow links or enter other file systems.

    Below a start folder it sees what the user may see who led to it. The start folders take turns, so that a
    large one leaves room for all others. A caller may set `cut`.
    """

    def __init__(
        self,
        folders: "Sequence[tuple[str, UserRights]]",
        now: float,
        enter: "Callable[[str], object]",
        blocked: "Callable[[str], bool]",
    ) -> None:
        """Prepare a walk below `folders`, each with the user who led to it; `now`: unix seconds.

        `enter` is called with each folder before it is read; `blocked` returns True for paths not to access.
        """
        self.found: list[LogCandidate] = []
        self.entries = 0
        self.cut = False
        """True if a limit ended it early."""
        self._now = now
        self._user = os.geteuid()
        self._enter = enter
        self._blocked = blocked
        self._folders = folders
        self._seen: set[tuple[int, int, int]] = set()
        """Device, inode, user."""
        self._paths: set[str] = set()

    def steps(self) -> "Iterator[None]":
        """Read up to `TURN` entries of one folder between two yields; `found` gets the log files."""
        turns = deque(self._below(folder, rights) for folder, rights in self._folders)
        while turns and not self.cut:
            walk = turns.popleft()
            try:
                next(walk)
            except StopIteration:
                continue
            turns.append(walk)
            yield
            self.cut = self.cut or self.entries >= MAX_ENTRIES

    def _below(self, start: str, rights: "UserRights") -> "Generator[None, None, None]":
        """Walk below a start folder; yield after each folder, and after `TURN` entries of a larger one."""
        level: list[tuple[str, int | None, int]] = [(start, None, 0)]
        while level:
            below: list[tuple[float, str, int, int]] = []
            for folder, device, depth in level:
                for _ in self._list(folder, rights, device, depth, below):
                    yield
                yield
            level = [(path, device, depth) for _, path, device, depth in sorted(below)]

    def _list(
        self,
        folder: str,
        rights: "UserRights",
        device: "int | None",
        depth: int,
        below: "list[tuple[float, str, int, int]]",
    ) -> "Iterator[None]":
        """Add a folder's log files to `found`, its subfolders to `below`; yield after each `TURN` entries.

        `below`: (-mtime, path, device, depth).
        """
        if self._blocked(folder):
            return
        self._enter(folder)
        try:
            here = os.stat(folder)
            place = here.st_dev, here.st_ino, rights.uid
            if place in self._seen or device not in (None, here.st_dev) or not rights.may_list(here):
                return
            self._seen.add(place)
            with os.scandir(folder) as entries:
                for number, entry in enumerate(entries, 1):
                    self.entries += 1
                    self._take(entry, rights, here.st_dev, depth, below)
                    if not number % TURN:
                        yield
                        self._enter(folder)
        except OSError:
            pass  # folders that cannot be listed are skipped

    def _take(
        self,
        entry: "os.DirEntry[str]",
        rights: "UserRights",
        device: int,
        depth: int,
        below: "list[tuple[float, str, int, int]]",
    ) -> None:
        name = entry.name
        if name.startswith(".") or name in _NO_LOG_FOLDERS:
            return
        is_folder = entry.is_dir(follow_symlinks=False)
        if name.endswith(_UNFINISHED_BUNDLE) if is_folder else not may_be_log(name):
            return
        status = entry.stat(follow_symlinks=False)
        if is_folder:
            deeper = depth + (not _MADE_BY_TOOLS.fullmatch(name))
            if deeper <= MAX_DEPTH:
                below.append((-status.st_mtime, entry.path, device, deeper))
        elif self._is_wanted(status) and rights.may_read(status) and entry.path not in self._paths:
            self._paths.add(entry.path)
            self.found.append(LogCandidate(entry.path, status))

    def _is_wanted(self, status: "os.stat_result") -> bool:
        """Return True if a file with text was written recently, by a user whose processes this agent sees."""
        if not stat.S_ISREG(status.st_mode) or not status.st_size:
            return False
        ours = self._user in (0, status.st_uid)
        return ours and self._now - WINDOW_S <= status.st_mtime <= self._now + AHEAD_S


def may_be_log(name: str) -> bool:
    """Return True if a file name is that of a log: by its suffix, or without one by a word in it."""
    if SAVED_SCREEN_NAME.match(name):
        return False
    if _LOG_NAME.search(name):
        return True
    ending = _ENDING.search(name)
    return _LOG_WORD.search(name) is not None and (
        ending is None or _ENDINGS.match(ending.group(1)) is not None
    )
