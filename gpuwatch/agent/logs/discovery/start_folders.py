"""Lists likely folders of ended jobs: working folders of shells, home folders, torchrun's folders."""

import os
import stat
import tempfile

from ...base.procfs import names, read_bytes, read_link
from ...base.system_folders import is_system
from ...base.user_rights import NOBODY, ROOT, UserRights, in_turns, uid_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable

SHELLS = frozenset(
    ("bash", "sh", "dash", "zsh", "fish", "tcsh", "ksh", "csh", "tmux", "screen", "sshd", "srun", "salloc")
)
"""Shells (comm of proc(5), up to 15 characters), in whose working folder users start jobs."""
MAX_SHELLS = 24
"""Most working folders of shells."""
MAX_RECORDED = 32
"""Most folders of recorded launches."""
MAX_TORCHRUN = 24
"""Most of torchrun's default log folders; torchrun leaves one behind per start."""
_TORCHELASTIC = "torchelastic_"


class StartFolders(object):
    """Folders to search, each once, by their real paths, with the user who led to each.

    A user leads only to what he may list: by his shells, by folders of torchrun, by what the journal and the
    process accounting record, by logs of earlier sessions. /proc/PID/cwd is readable for the agent's own
    user's processes only, for root of all.
    """

    def __init__(self, enter: "Callable[[str], object]", blocked: "Callable[[str], bool]") -> None:
        """Start empty; `enter` is called with each folder before the file system is accessed.

        `blocked` returns True for folders that must not be accessed.
        """
        self.found: list[tuple[str, UserRights]] = []
        self.cut = False
        """True if there were more than the limits allow."""
        self._enter = enter
        self._blocked = blocked
        self._rights: dict[int, UserRights] = {}
        self._seen: set[tuple[str, int]] = set()

    def take(self, proc: str, earlier: "Iterable[str]") -> None:
        """Take the agent's own folders, those of shells and torchrun, and the `earlier` ones.

        `earlier`: the folders of logs that were followed in earlier sessions; their owners led to them.
        """
        shells, torchrun = _of_shells(proc), _torchelastic()
        own = os.geteuid()
        for folder, uid in [(_own(), own), (_home(), own)] + [(folder, None) for folder in earlier]:
            self._add(folder, uid)
        for folder, uid in shells[:MAX_SHELLS] + torchrun[:MAX_TORCHRUN]:
            self._add(folder, uid)

    def take_recorded(self, recorded: "Iterable[tuple[str, int]]") -> None:
        """Take folders of launches in the journal or the process accounting, each with who named it (uid).

        The users take turns, so that nobody hides the folders of others.
        """
        left = MAX_RECORDED
        for folder, uid in in_turns(recorded):
            self.cut = self.cut or not left
            if left:
                left -= self._add(folder, uid)

    def _add(self, folder: str, uid: "int | None") -> bool:
        if not folder.startswith("/") or self._blocked(folder):
            return False
        self._enter(folder)
        real = os.path.realpath(folder)
        try:
            status = os.stat(real)
        except OSError:
            return False
        rights = self._rights_of(_owner(status) if uid is None else uid)
        if is_system(real) or (real, rights.uid) in self._seen or not stat.S_ISDIR(status.st_mode):
            return False
        if not rights.may_list(status) or not rights.may_reach(real):
            return False
        self._seen.add((real, rights.uid))
        self.found.append((real, rights))
        return True

    def _rights_of(self, uid: int) -> UserRights:
        if uid not in self._rights:
            self._rights[uid] = UserRights(uid)
        return self._rights[uid]


def _owner(status: os.stat_result) -> int:
    """Return the user whose folder it is; NOBODY for one of root that others may write."""
    shared = status.st_uid == ROOT and status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return NOBODY if shared else status.st_uid


def _torchelastic() -> "list[tuple[str, int]]":
    """Return the default log folders of torchrun, newest first, with their owners, who take turns."""
    base = tempfile.gettempdir()
    found = []
    for name in names(base):
        if name.startswith(_TORCHELASTIC):
            path = os.path.join(base, name)
            try:
                status = os.lstat(path)
            except OSError:
                continue
            if stat.S_ISDIR(status.st_mode):
                found.append((-status.st_mtime, path, status.st_uid))
    return in_turns([(path, uid) for _, path, uid in sorted(found)])


def _of_shells(proc: str) -> "list[tuple[str, int]]":
    """Return the working folders of shells, with the users who run these, who take turns."""
    found: dict[tuple[str, int], None] = {}
    for pid in names(proc):
        if pid.isdecimal() and _name(proc, pid) in SHELLS:
            folder = read_link(os.path.join(proc, pid, "cwd"))
            if folder is not None:
                found[folder, uid_of(int(pid), proc)] = None
    return in_turns(found)


def _name(proc: str, pid: str) -> str:
    """Return a process's name up to its first colon: `tmux` for `tmux: server`; empty if it is unreadable."""
    comm = read_bytes(os.path.join(proc, pid, "comm"), 64) or b""
    return comm.decode("utf-8", "replace").partition(":")[0].strip()


def _own() -> str:
    """Return the agent's working folder (with ssh its user's home); empty if it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ""


def _home() -> str:
    return os.path.expanduser("~")
