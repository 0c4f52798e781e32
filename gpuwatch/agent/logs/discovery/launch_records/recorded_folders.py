"""Lists folders of ended launches: of commands in the journal, and of users in the process accounting."""

import os
import pwd
import select
import time

from ....base.procfs import names, read_link
from ....base.regular_file import read_regular
from ....base.system_folders import is_system
from ...ipc.lifeline import die_with
from .accounting import FILES, ended_launchers
from .journal_entries import RECORDERS, STARTED, WRITERS, Launches

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from typing import Callable, Iterator, Sequence

WINDOW_S = 6 * 3600.0
"""Seconds since a launch or its end within which its folder counts."""
MAX_FOLDERS = 16
MAX_USERS = 8
MAX_WORKING_FOLDERS = 4
"""Working folders of running processes per user."""
JOURNAL_S = 3.0
"""Seconds that `journalctl` may take, for both questions together."""
MAX_ENTRIES = 400
"""Entries of the journal per question, newest first."""
MAX_BYTES = 4 << 20
MAX_UNIT_BYTES = 65536
WAIT_S = 0.02
JOURNALS = "/var/log/journal", "/run/log/journal"
_QUESTIONS = (
    ["_COMM=" + name for name in RECORDERS] + ["+", "MESSAGE_ID=" + STARTED],
    ["_COMM=" + name for name in WRITERS],
)
"""Two, so that a program that writes many lines hides no command of a user."""


class RecordedFolders(object):
    """Reads the records once, in steps, with limits; nothing is written, and no service is asked."""

    def __init__(
        self,
        proc: str,
        enter: "Callable[[str], object]",
        blocked: "Callable[[str], bool]",
        accounting: "Sequence[str]" = FILES,
        journals: "Sequence[str]" = JOURNALS,
    ) -> None:
        """Prepare; `enter` is called with each file before it is read, `blocked`: paths not to access."""
        self.folders: dict[str, int] = {}
        """Folder -> the user (uid) who named it, as in `Launches.folders`."""
        self._proc = proc
        self._enter = enter
        self._blocked = blocked
        self._accounting = accounting
        self._journals = journals
        self._launches = Launches(_home, self._unit_file)

    def steps(self) -> "Iterator[None]":
        """Read the journal, then the accounting, for folders of launched jobs; `folders` gets the result."""
        since = time.time() - WINDOW_S
        if self._has_journal():
            deadline = time.monotonic() + JOURNAL_S
            for question in _QUESTIONS:
                for _ in self._ask(question, since, deadline):
                    yield
        users: dict[int, float] = {}
        for path in self._accounting:
            for found in self._ended(path, since):
                users.update(found)
                yield
        by_end = sorted(users, key=lambda uid: -users[uid])
        folders = dict(list(self._launches.folders.items())[:MAX_FOLDERS])
        for uid in list(dict.fromkeys(self._launches.users + by_end))[:MAX_USERS]:
            for folder in self._places(uid):
                folders.setdefault(folder, uid)
            yield
        self.folders = folders

    def _has_journal(self) -> bool:
        """Return True if a journal is kept: without one, the program is not started."""
        for folder in self._journals:
            self._enter(folder)
            if any(names(os.path.join(folder, machine)) for machine in names(folder)):
                return True
        return False

    def _ask(self, question: "list[str]", since: float, deadline: float) -> "Iterator[None]":
        """Give the answer of `journalctl` to `Launches`, until it ends or a limit is reached.

        Yields after each piece of the answer, and whenever it had to wait.
        """
        import subprocess  # noqa: PLC0415 - 1 MB, for nodes with a journal only

        me, left = os.getpid(), MAX_BYTES
        seconds = max(0, int(time.time() - since))
        command = ["journalctl", "-q", "--no-pager", "-o", "json", "-r", "-n", str(MAX_ENTRIES)]
        try:
            child = subprocess.Popen(
                command + ["--since=-{}s".format(seconds)] + question,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                preexec_fn=lambda: die_with(me),  # noqa: PLW1509 - one system call
            )
        except OSError:
            return
        try:
            rest = b""
            while left > 0 and time.monotonic() < deadline:
                data = _next_bytes(child)
                if data == b"":
                    break
                if data is not None:
                    left -= len(data)
                    *lines, rest = (rest + data).split(b"\n")
                    for line in lines:
                        self._launches.add(line)
                yield
        finally:
            child.kill()
            child.wait()
            child.stdout.close()  # type: ignore[union-attr]  # started with stdout=PIPE

    def _unit_file(self, path: str) -> "str | None":
        """Return the text of a unit file; None: absent, not regular, or in a folder not to access."""
        folder = os.path.dirname(path)
        if self._blocked(folder):
            return None
        self._enter(folder)
        try:
            return read_regular(path, MAX_UNIT_BYTES).decode("utf-8", "replace")
        except (OSError, ValueError):
            return None

    def _ended(self, path: str, since: float) -> "Iterator[dict[int, float]]":
        if self._blocked(path):
            return
        self._enter(path)
        try:
            for found in ended_launchers(path, since):
                yield found
        except OSError:
            pass  # no accounting here, or for root only

    def _places(self, uid: int) -> "list[str]":
        """Return a user's home folder, and working folders of his running processes.

        At most `MAX_WORKING_FOLDERS`; system folders are left out.
        """
        found = [folder for folder in (_home(uid),) if folder]
        for pid in names(self._proc):
            folder = os.path.join(self._proc, pid)
            try:
                if not pid.isdecimal() or os.stat(folder).st_uid != uid:
                    continue
            except OSError:
                continue
            working = read_link(os.path.join(folder, "cwd"))
            if working is not None and working not in found and not is_system(working):
                found.append(working)
        return found[: 1 + MAX_WORKING_FOLDERS]


def _next_bytes(child: "subprocess.Popen[bytes]") -> "bytes | None":
    """Return what a child has written, empty at its end; None: nothing within `WAIT_S`."""
    output = child.stdout
    assert output is not None  # noqa: S101 - started with stdout=PIPE
    if not select.select([output], [], [], WAIT_S)[0]:
        return None
    return os.read(output.fileno(), 1 << 16)


def _home(uid: int) -> "str | None":
    try:
        return pwd.getpwuid(uid).pw_dir
    except (KeyError, OverflowError):
        return None
