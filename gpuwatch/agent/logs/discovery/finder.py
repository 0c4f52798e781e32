"""Searches for log files step by step: walks globs repeatedly, and asks Slurm for its output files."""

import os
import re
import stat
import time

from ...base.regular_file import FOREIGN_FILE, open_regular, restrict
from ...base.user_rights import NOBODY, UserRights
from .globs import Glob, with_hosts

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import Any, Callable, Iterator

    from ..files.catalog import Catalog
    from ..ipc.activity_marker import ActivityMarker

RESCAN_S = 3.0
"""Seconds between rounds of all globs, or ten times the last round's duration if longer."""
STEP_S = 0.01
SLURM_S = 10.0
"""Seconds that `scontrol` may take; it is run once per job."""
_JOB = re.compile(r"\d{1,12}(?:_\d{1,8})?")
_STREAMS = re.compile(r"^\s*Std(?:Out|Err)=(/.*)$", re.MULTILINE)
_USER = re.compile(r"\bUserId=\S*\((\d+)\)")


NOTHING = "nothing is there"
_KINDS: "tuple[tuple[Callable[[int], bool], str | None], ...]" = (
    (stat.S_ISREG, None),
    (stat.S_ISFIFO, "a named pipe (FIFO), which is not read: its writer would notice"),
    (stat.S_ISDIR, "a folder; name the files in it"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def no_log(path: str) -> "str | None":
    """Return why a path is no log file; None: it may be one."""
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        return NOTHING if isinstance(error, FileNotFoundError) else None  # the catalog states why
    return next((words for fits, words in _KINDS if fits(mode)), "no regular file")


def rights_of(users: "set[str]") -> UserRights:
    """Return the rights of the user (id) of a Slurm job; of several, those that all users have.

    A job's user chooses the path that Slurm states: the agent may read files that this user may not. A job's
    name may contain a second user, so several users do not count.
    """
    return UserRights(int(next(iter(users))) if len(users) == 1 else NOBODY)


def is_refused(path: str) -> bool:
    """Return True if there is a file that the user who named the path may not read."""
    try:
        os.close(open_regular(path))
    except OSError as error:
        return error.strerror == FOREIGN_FILE
    return False


class Finder(object):
    """Searches for log files by globs and Slurm's output files, and adds them to the catalog."""

    def __init__(self, config: "dict[str, Any]", catalog: "Catalog", marker: "ActivityMarker") -> None:
        hosts = config.get("hosts", [])
        self._catalog = catalog
        self._marker = marker
        options = config.get("options", [])
        self._globs = [
            Glob(one, "option", pattern) for pattern in options for one in with_hosts([pattern], hosts)
        ]
        self._globs += [Glob(one, "glob") for one in with_hosts(config.get("logs", []), hosts)]
        self._misses: dict[str, str | None] = dict.fromkeys(options, NOTHING)
        self._walk: Iterator[tuple[str, int | None, Glob] | None] | None = None
        self._due = 0.0
        self._began = 0.0
        self._first = True
        self._asked: set[str] = set()
        self._asking: tuple[subprocess.Popen[bytes], float, str] | None = None
        self._waiting: list[str] = []

    @property
    def settled(self) -> bool:
        """Return True if all globs were walked once, and Slurm has answered."""
        return not (self._globs and self._first) and self._asking is None and not self._waiting

    @property
    def misses(self) -> "dict[str, str]":
        """Return option -> why it has led to no log file so far."""
        return {pattern: why for pattern, why in self._misses.items() if why is not None}

    def jobs(self, names: "list[str]") -> None:
        """Add the Slurm jobs (numbers) on this node; Slurm is asked once for the output files of each."""
        for name in names:
            if name not in self._asked and _JOB.fullmatch(name):
                self._asked.add(name)
                self._waiting.append(name)

    def step(self) -> bool:
        """Search for log files for a moment; return True if there is more to do now."""
        self._ask_slurm()
        now = time.monotonic()
        if self._walk is None:
            if now < self._due or not self._globs:
                return False
            self._began = now
            self._walk = self._all()
        while time.monotonic() < now + STEP_S:
            try:
                found = next(self._walk)
            except StopIteration:
                ended = time.monotonic()
                self._walk, self._first = None, False
                self._due = ended + max(RESCAN_S, 10 * (ended - self._began))
                return False
            if found is not None:
                path, rank, each = found
                if each.source == "option" and self._misses[each.given] is not None:
                    self._misses[each.given] = no_log(path)
                self._catalog.add(path, each.source, rank, fresh=not self._first)
        return True

    def _all(self) -> "Iterator[tuple[str, int | None, Glob] | None]":
        for each in self._globs:
            for found in each.walk(self._enter):
                yield None if found is None else (found[0], found[1], each)

    def _enter(self, path: str) -> None:
        self._marker.file(path)

    def _ask_slurm(self) -> None:
        if self._asking is not None:
            child, began, job = self._asking
            if child.poll() is not None:
                self._asking = None
                assert child.stdout is not None  # noqa: S101 - asked for below
                reported = child.stdout.read(1 << 16).decode("utf-8", "replace")
                child.stdout.close()
                users = set(_USER.findall(reported))
                for path in sorted(set(_STREAMS.findall(reported)) - {"/dev/null"}):
                    if path not in self._catalog.entries:
                        self._enter(path)
                        restrict(path, rights_of(users))
                    if not is_refused(path):
                        self._catalog.add(path, "slurm", job=job)
            elif time.monotonic() - began > SLURM_S:
                child.kill()
        elif self._waiting:
            import subprocess  # noqa: PLC0415 - 1 MB, for nodes of Slurm only

            job = self._waiting.pop(0)
            command = ["scontrol", "show", "job", job]
            try:
                child = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
                )
            except OSError:
                self._waiting = []  # no Slurm here
                return
            self._asking = child, time.monotonic(), job
