"""Opens files of users safely by names that other users may change at any moment, and states their times.

A FIFO or device put in place of a file between check and open could block the reader or have side effects. A
link may lead to a file that its owner cannot read but the agent can: a user must not get root-only content
into a report by linking to it.
"""

import errno
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Set, Tuple

_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK
PATH_ONLY = getattr(os, "O_PATH", None)
FD_PATH = "/proc/self/fd/{}"
MAX_LINKS = 40
"""Link limit of the kernel per path."""
NOT_REGULAR = "not a regular file"
FOREIGN_LINK = "a link of another user, to a file that is not world-readable"

LATEST = 1.0e11
"""Unix seconds; the cockpit refuses later times and those before 1970 (`wire.Moment`)."""


def modified_at(status: "os.stat_result") -> float:
    """Return when a file was last written (unix seconds), from 0 to `LATEST`.

    Anybody can set the time of a file of their own to any year.
    """
    return min(max(status.st_mtime, 0.0), LATEST)


def open_regular(path: str, no_link: bool = False) -> int:
    """Return a descriptor to read a regular file; nothing else is ever opened.

    Args:
        path: Its name.
        no_link: Refuse a name that is itself a link.

    Raises:
        OSError: it is missing, unreadable or not a regular file, or it is a user's link to a file of another
            user that is not world-readable.
    """
    extra = os.O_NOFOLLOW if no_link else 0
    if PATH_ONLY is not None:
        place = os.open(path, PATH_ONLY | os.O_CLOEXEC | extra)
        try:
            _check(place, path)
            return os.open(FD_PATH.format(place), _FLAGS)  # the same file that was checked
        except OSError as error:
            if error.errno != errno.ENOENT:  # else /proc is not mounted
                raise
        finally:
            os.close(place)
    descriptor = os.open(path, _FLAGS | extra)
    try:
        _check(descriptor, path)
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


def _check(place: int, path: str) -> None:
    """Check an open file: it must be regular, and the owners of links to it must be allowed to read it.

    Raises:
        OSError: It is refused, or the path leads to another file by now.
    """
    found = os.fstat(place)
    if not stat.S_ISREG(found.st_mode):
        raise OSError(0, NOT_REGULAR, path)
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

    Links in /proc are the kernel's and thus trusted.
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
        if stat.S_ISLNK(found.st_mode) and not here.startswith("/proc/"):
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
