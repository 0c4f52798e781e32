"""Opens files of users safely by names that other users may change at any moment, and states their times.

A FIFO or device put in place of a file between check and open could block the reader or have side effects. A
link may lead to a file that its owner cannot read but the agent can: a user must not get root-only content
into a report by linking to it, by mounting it in a container, or by naming it as the output of a job.
"""

import errno
import os
import re
import stat

from .user_rights import UserRights, uid_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Dict, List, Optional, Set, Tuple

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
PATH_ONLY = getattr(os, "O_PATH", None)
FD_PATH = "/proc/self/fd/{}"
MAX_LINKS = 40
"""Link limit of the kernel per path."""
NOT_REGULAR = "not a regular file"
FOREIGN_LINK = "a link of another user, to a file that is not world-readable"
FOREIGN_FILE = "named by a user who may not read it"
_INSIDE = re.compile(r"/proc/(\d{1,10})/root/(.+)", re.DOTALL)
"""Matches (pid, path below the root of the process)."""
_FOLDER = getattr(os, "O_DIRECTORY", 0)
_KERNEL_LINK = re.compile(r"/proc/(?:\d+|self|thread-self)/(?:root|cwd|fd/\d+)$")
"""Links that the kernel makes and follows itself; what stands behind them is a user's."""
_NAMED_BY: "Dict[str, UserRights]" = {}
"""Path -> the rights of the user who named it; see `restrict`."""

LATEST = 1.0e11
"""Unix seconds; the cockpit refuses later times and those before 1970 (`wire.Moment`)."""


def modified_at(status: "os.stat_result") -> float:
    """Return when a file was last written (unix seconds), from 0 to `LATEST`.

    Anybody can set the time of a file of their own to any year.
    """
    return min(max(status.st_mtime, 0.0), LATEST)


def restrict(path: str, rights: "UserRights") -> None:
    """Let `open_regular` refuse a path from now on wherever the user who named it may not read the file."""
    _NAMED_BY[path] = rights


def open_regular(path: str, no_link: bool = False) -> int:
    """Return a descriptor to read a regular file; other files are checked (O_PATH), not opened.

    Without O_PATH or /proc, a file is opened without blocking, checked, and closed if it is refused.

    Args:
        path: Its name. Below `/proc/PID/root`, links lead where they lead that process, and only files count
            that its user may read.
        no_link: Refuse a name that is itself a link.

    Raises:
        OSError: it is missing, unreadable or not a regular file, it is a user's link to a file of another
            user that is not world-readable, or the user who named the path may not read it.
    """
    extra = os.O_NOFOLLOW if no_link else 0
    if PATH_ONLY is not None:
        inside = _INSIDE.match(path)
        rights = _NAMED_BY.get(path)
        if inside is None:
            place = os.open(path, PATH_ONLY | os.O_CLOEXEC | extra)
        else:
            place, rights = _open_inside(inside.group(1), inside.group(2), PATH_ONLY | os.O_CLOEXEC, no_link)
        try:
            _check(place, path, rights, inside is not None)
            return os.open(FD_PATH.format(place), _FLAGS)  # the same file that was checked
        except OSError as error:
            if error.errno != errno.ENOENT or inside is not None:  # else /proc is not mounted
                raise
        finally:
            os.close(place)
    descriptor = os.open(path, _FLAGS | extra)
    try:
        _check(descriptor, path, None, False)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def read_regular(path: str, limit: int) -> bytes:
    """Return up to `limit` bytes of a regular file, from its begin.

    Raises:
        OSError: As `open_regular` does.
    """
    with os.fdopen(open_regular(path), "rb") as file:
        return file.read(limit)


def _open_inside(pid: str, path: str, flags: int, no_link: bool) -> "Tuple[int, UserRights]":
    """Return (descriptor of a file below the root of a process, the rights of that process's user).

    The kernel resolves links on such a path where the agent is: an absolute link that a user makes in a
    container leads to a file of the node. Here `/proc/77/root/data/rank_0.log`, where `data` is a link to
    `/etc`, is `etc/rank_0.log` below the root of process 77.

    Args:
        pid: The process.
        path: Path below its root.
        flags: Those of `os.open`, with `O_PATH`: nothing is opened for reading.
        no_link: Refuse a name that is itself a link.

    Raises:
        OSError: the process or the file is missing.
    """
    opened = [os.open("/proc/{}/root".format(pid), flags | _FOLDER)]
    try:
        _descend(opened, path, flags | os.O_NOFOLLOW, no_link)
        return opened.pop(), UserRights(uid_of(int(pid), "/proc"))
    finally:
        for each in opened:
            os.close(each)


def _descend(opened: "List[int]", path: str, flags: int, no_link: bool) -> None:
    """Open the parts of a path, one below the other; `opened` begins with the root and ends with the file."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    left = MAX_LINKS
    while parts:
        part = parts.pop(0)
        if part == "..":
            if len(opened) > 1:
                os.close(opened.pop())
            continue
        opened.append(os.open(part, flags, dir_fd=opened[-1]))
        if not stat.S_ISLNK(os.fstat(opened[-1]).st_mode):
            continue
        left -= 1
        if left < 0 or (no_link and not parts):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink("", dir_fd=opened[-1])
        os.close(opened.pop())
        if target.startswith("/"):
            while len(opened) > 1:
                os.close(opened.pop())
        parts = [each for each in target.split("/") if each not in ("", ".")] + parts


def _may_read(rights: "UserRights", place: int, is_inside: bool) -> bool:
    """Return True if a user may read an open file; who sees one inside of a container has reached it."""
    status = os.fstat(place)
    return rights.may_read(status) and (is_inside or rights.may_reach(os.readlink(FD_PATH.format(place))))


def _check(place: int, path: str, rights: "Optional[UserRights]", is_inside: bool) -> None:
    """Check an open file: it must be regular, and who named it and the owners of links may read it.

    Args:
        place: Its descriptor.
        path: Its name.
        rights: Those of the user who named it; None: nobody who could not read it.
        is_inside: It is below the root of a process, and no link on its path was followed by the kernel.

    Raises:
        OSError: It is refused, or the path leads to another file by now.
    """
    found = os.fstat(place)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(0, NOT_REGULAR, path)
    if rights is not None and not _may_read(rights, place, is_inside):
        raise OSError(errno.EACCES, FOREIGN_FILE, path)
    if is_inside:
        return
    whole = os.path.abspath(path)
    try:
        if os.readlink(FD_PATH.format(place)) == whole:
            return  # no link is on the way
    except OSError:
        pass
    owners, public = _links(whole)
    if owners - {0, os.geteuid(), found.st_uid} and not (public and found.st_mode & stat.S_IROTH):
        raise OSError(errno.EACCES, FOREIGN_LINK, path)
    now = os.stat(path)
    if (now.st_dev, now.st_ino) != (found.st_dev, found.st_ino):
        raise OSError(errno.ESTALE, "it was replaced while it was opened", path)


def _links(path: str) -> "Tuple[Set[int], bool]":
    """Return (owners of the links on a path, whether all users may enter its folders).

    The kernel's own links in /proc are not counted.
    """
    owners: Set[int] = set()
    public = True
    at, parts = "/", [part for part in path.split("/") if part]
    left = MAX_LINKS
    while parts:
        part = parts.pop(0)
        if part in ("..", "."):
            at = os.path.dirname(at) if part == ".." else at
            continue
        here = os.path.join(at, part)
        found = os.lstat(here)
        if stat.S_ISLNK(found.st_mode) and not _KERNEL_LINK.match(here):
            left -= 1
            if left < 0:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            owners.add(found.st_uid)
            target = os.readlink(here)
            at = "/" if target.startswith("/") else at
            parts = [each for each in target.split("/") if each] + parts
            continue
        if stat.S_ISDIR(found.st_mode):
            public = public and bool(found.st_mode & stat.S_IXOTH)
        at = here
    return owners, public
