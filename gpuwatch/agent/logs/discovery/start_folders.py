"""Lists likely folders of ended jobs: working folders of shells, home folders, torchrun's folders."""

import os
import pwd
import stat
import tempfile

from ...base.procfs import names, read_bytes, read_link
from ...base.system_folders import is_system

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable, Iterable, Iterator, Mapping

SHELLS = frozenset(
    ("bash", "sh", "dash", "zsh", "fish", "tcsh", "ksh", "csh", "tmux", "screen", "sshd", "srun", "salloc")
)
"""Shells (comm of proc(5), up to 15 characters), in whose working folder users start jobs."""
MAX_SHELLS = 24
"""Most working folders of shells."""
MAX_TORCHRUN = 24
"""Most of torchrun's default log folders; torchrun leaves one behind per start."""
_TORCHELASTIC = "torchelastic_"


def start_folders(
    proc: str,
    earlier: "Iterable[str]",
    recorded: "Mapping[str, int]",
    enter: "Callable[[str], object]",
    blocked: "Callable[[str], bool]",
) -> "Iterator[str]":
    """Yield the real paths of folders to search, each once.

    /proc/PID/cwd is readable for the agent's own user's processes only, for root of all.

    Args:
        proc: Where /proc is.
        earlier: The folders of logs that were followed in earlier sessions.
        recorded: Folder of a launch in the journal or the process accounting -> the user (uid) who named it;
            it counts if that user may list it.
        enter: Is called with each folder before the file system is accessed.
        blocked: Returns True for folders that must not be accessed.
    """
    seen: set[str] = set()
    torchrun, shells = _torchelastic()[:MAX_TORCHRUN], _of_shells(proc)[:MAX_SHELLS]
    groups = {uid: _groups(uid) for uid in set(recorded.values())}
    trusted = [_own(), _home()] + list(earlier) + shells + torchrun
    for folder, uid in [(each, 0) for each in trusted] + list(recorded.items()):
        if not folder.startswith("/") or blocked(folder):
            continue
        enter(folder)
        real = os.path.realpath(folder)
        if real in seen or is_system(real) or not os.path.isdir(real):
            continue
        if uid == 0 or _may_list(real, uid, groups[uid]):
            seen.add(real)
            yield real


def _may_list(folder: str, uid: int, groups: "list[int]") -> bool:
    """Return True if a user of these groups may list a folder, by the modes of all on its real path."""
    at, wanted = folder, stat.S_IROTH | stat.S_IXOTH
    while True:
        try:
            found = os.lstat(at)
        except OSError:
            return False
        shift = 6 if found.st_uid == uid else 3 if found.st_gid in groups else 0
        if not stat.S_ISDIR(found.st_mode) or (found.st_mode >> shift) & wanted != wanted:
            return False
        if at == os.path.dirname(at):
            return True
        at, wanted = os.path.dirname(at), stat.S_IXOTH


def _groups(uid: int) -> "list[int]":
    try:
        person = pwd.getpwuid(uid)
        return os.getgrouplist(person.pw_name, person.pw_gid)
    except (KeyError, OverflowError, OSError):
        return []


def _torchelastic() -> "list[str]":
    """Return the default log folders of torchrun, newest first."""
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
                found.append((-status.st_mtime, path))
    return [path for _, path in sorted(found)]


def _of_shells(proc: str) -> "list[str]":
    found = []
    for pid in names(proc):
        if pid.isdecimal() and _name(proc, pid) in SHELLS:
            folder = read_link(os.path.join(proc, pid, "cwd"))
            if folder is not None and folder not in found:
                found.append(folder)
    return found


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
