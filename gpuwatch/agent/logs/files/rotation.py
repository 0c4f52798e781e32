"""Finds the lines that a rotation moved away between two reads of a file."""

import os
import re
import stat

from ...base.regular_file import open_regular
from ...base.user_rights import ROOT

_AGED = re.compile(r"[.-]\d[\dT:_.-]*$")
"""Suffixes added by rotation: `.1`, `-20240131`, `.2024-01-31_12`."""
MAX_SIBLINGS = 16


def succeeds(file: "os.stat_result", owner: int) -> bool:
    """Return True if a file can be the next part of a log of this user: it is the user's own, or root's.

    In a folder where all may write, another user can take the name of a log that was rotated or deleted.
    """
    return file.st_uid in (owner, ROOT)


def copied_to(path: str, ours: "os.stat_result", offset: int, mark: bytes) -> "tuple[str, int, int] | None":
    """Return (path, inode, offset) at which to continue in the copy made before a truncation, or None.

    The copy is recognised by the bytes before the position, `mark`. `ours`: the truncated file.
    """
    if not mark:
        return None
    for found, sibling in reversed(_aged(path, ours.st_uid)):
        if (
            found.st_ino != ours.st_ino
            and found.st_size >= offset
            and _holds(sibling, offset - len(mark), mark)
        ):
            return sibling, found.st_ino, offset
    return None


def signature(path: str) -> "tuple[str, int, int, int] | None":
    """Return (path, inode, size, mtime), which differs for successive copies of one name; None: no file."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return path, found.st_ino, found.st_size, found.st_mtime_ns


def rotated_meanwhile(
    path: str, ours: "os.stat_result", newest: "os.stat_result"
) -> "list[tuple[str, int, int]]":
    """Return (path, inode, 0) of files that came after the current one and were rotated before the newest.

    Only if the current file has become one of their siblings: other names may be another program's logs.
    """
    siblings = _aged(path, ours.st_uid)
    if ours.st_ino not in [found.st_ino for found, _ in siblings]:
        return []
    return [
        (sibling, found.st_ino, 0)
        for found, sibling in siblings
        if found.st_ino not in (ours.st_ino, newest.st_ino)
        and ours.st_mtime_ns < found.st_mtime_ns <= newest.st_mtime_ns
    ]


def _aged(path: str, owner: int) -> "list[tuple[os.stat_result, str]]":
    """Return the newest `MAX_SIBLINGS` rotated siblings of a user's file with their status, oldest first."""
    folder, base = os.path.split(path)
    found: list[tuple[os.stat_result, str]] = []
    try:
        names = [name for name in os.listdir(folder or ".") if name.startswith(base)]
    except OSError:
        return []
    for name in names:
        if not _AGED.match(name[len(base) :]):
            continue
        sibling = os.path.join(folder, name)
        try:
            state = os.stat(sibling)
        except OSError:
            continue
        if stat.S_ISREG(state.st_mode) and succeeds(state, owner):
            found.append((state, sibling))
    return sorted(found, key=lambda one: one[0].st_mtime_ns)[-MAX_SIBLINGS:]


def _holds(path: str, offset: int, mark: bytes) -> bool:
    try:
        descriptor = open_regular(path)
    except OSError:
        return False
    try:
        return os.pread(descriptor, len(mark), offset) == mark
    except OSError:
        return False
    finally:
        os.close(descriptor)
