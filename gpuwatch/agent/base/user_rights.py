"""What a user may list and read, by the modes of files: users lead the agent, which may be root, to paths.

Access control lists that grant more are not read: what only they allow counts as forbidden.
"""

import os
import pwd
import re
import stat

from .procfs import read_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterable, Optional, TypeVar

    Item = TypeVar("Item")

NOBODY = -1
"""A user who is not known: with the rights that all users have."""
ROOT = 0
_REAL_UID = re.compile(rb"^Uid:\s+(\d{1,10})\s", re.MULTILINE)


class UserRights(object):
    """The rights of one user; those of root and of the agent's own user are left to the kernel."""

    __slots__ = ("_free", "_groups", "uid")

    def __init__(self, uid: int) -> None:
        self.uid = uid
        self._free = uid in (ROOT, os.geteuid())
        self._groups: Optional[frozenset[int]] = None

    def may_list(self, status: os.stat_result) -> bool:
        """Return True if the user may list a folder with this status, and enter it."""
        return stat.S_ISDIR(status.st_mode) and self._has(status, stat.S_IROTH | stat.S_IXOTH)

    def may_read(self, status: os.stat_result) -> bool:
        """Return True if the user may read a file with this status."""
        return self._has(status, stat.S_IROTH)

    def may_have_written(self, status: os.stat_result) -> bool:
        """Return True if a file is the user's own, or root's and the user may read it."""
        return status.st_uid == self.uid or (status.st_uid == ROOT and self.may_read(status))

    def may_reach(self, path: str) -> bool:
        """Return True if the user may enter all folders above a path without links."""
        at = "/" if self._free else path
        while at != os.path.dirname(at):
            at = os.path.dirname(at)
            try:
                status = os.lstat(at)
            except OSError:
                return False
            if not stat.S_ISDIR(status.st_mode) or not self._has(status, stat.S_IXOTH):
                return False
        return True

    def _has(self, status: os.stat_result, wanted: int) -> bool:
        if self._free:
            return True
        shift = 6 if status.st_uid == self.uid else 3 if status.st_gid in self._in_groups() else 0
        return (status.st_mode >> shift) & wanted == wanted

    def _in_groups(self) -> "frozenset[int]":
        if self._groups is None:
            self._groups = _groups(self.uid)
        return self._groups


def in_turns(named: "Iterable[tuple[Item, int]]") -> "list[tuple[Item, int]]":
    """Return (item, user) pairs with the first of each user first, then the second ones, and so on.

    Where a limit follows, one user with many items takes no place of another one's first items.
    """
    turns: dict[int, int] = {}
    ordered = []
    for number, (item, uid) in enumerate(named):
        turns[uid] = turns.get(uid, 0) + 1
        ordered.append((turns[uid], number, (item, uid)))
    return [pair for _, _, pair in sorted(ordered, key=lambda one: one[:2])]


def uid_of(pid: int, proc: str) -> int:
    """Return the user who runs a process (its real uid); NOBODY if it has ended.

    The owner of /proc/PID would be root where the process forbids dumps of itself.
    """
    found = _REAL_UID.search(read_bytes(os.path.join(proc, str(pid), "status"), 4096) or b"")
    try:
        return int(found.group(1)) if found else os.stat(os.path.join(proc, str(pid))).st_uid
    except OSError:
        return NOBODY


def _groups(uid: int) -> "frozenset[int]":
    try:
        person = pwd.getpwuid(uid)
        return frozenset(os.getgrouplist(person.pw_name, person.pw_gid))
    except (KeyError, OverflowError, OSError):
        return frozenset()
