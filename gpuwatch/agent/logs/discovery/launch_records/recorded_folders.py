"""Lists folders of ended launches: of commands in the journal, and of users in the process accounting."""

import os
import pwd
import time

from ....base.procfs import names, read_link
from ....base.regular_file import read_regular
from ....base.system_folders import is_system
from .accounting import FILES, ended_launchers
from .journal_entries import Launches
from .journal_questions import JournalQuestions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterator, Sequence

WINDOW_S = 6 * 3600.0
"""Seconds since a launch or its end within which its folder counts."""
MAX_USERS = 32
MAX_WORKING_FOLDERS = 4
"""Working folders of running processes per user."""
MAX_UNIT_BYTES = 65536
JOURNALS = "/var/log/journal", "/run/log/journal"


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
        self.folders: list[tuple[str, int]] = []
        """(folder, user (uid) who named it), as in `Launches.folders`."""
        self.cut = False
        """True if a limit was reached before the entries of all users were read."""
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
            journal = JournalQuestions(self._launches.add, since)
            for _ in journal.steps():
                yield
            self.cut = journal.cut
        users: dict[int, float] = {}
        for path in self._accounting:
            for found in self._ended(path, since):
                users.update(found)
                yield
        by_end = sorted(users, key=lambda uid: -users[uid])
        folders = list(self._launches.folders)
        without_folder = list(dict.fromkeys(self._launches.users + by_end))
        for uid in without_folder[:MAX_USERS]:
            folders += [(folder, uid) for folder in self._places(uid)]
            yield
        self.cut = self.cut or len(without_folder) > MAX_USERS
        self.folders = list(dict.fromkeys(folders))

    def _has_journal(self) -> bool:
        """Return True if a journal is kept: without one, the program is not started."""
        for folder in self._journals:
            self._enter(folder)
            if any(names(os.path.join(folder, machine)) for machine in names(folder)):
                return True
        return False

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


def _home(uid: int) -> "str | None":
    try:
        return pwd.getpwuid(uid).pw_dir
    except (KeyError, OverflowError):
        return None
