"""Checks whether other users could have redirected a path by a link, or put files beside a file."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

MAX_LINKS = 40
"""The kernel's limit of links in one path."""
BESIDE_SUFFIXES = ("-wal", "-shm", "-journal")
"""Suffixes of files SQLite reads beside a database; their pages replace its own, whoever made them."""


def trusted_path(path: Path) -> Path:
    """Return the absolute path with all links resolved, after checking that no other user can redirect it.

    Links must belong to this user or root. In a world-writable folder each part of the path must belong to
    this user, root, or a group that this user is in. The last part may be missing.

    Raises:
        OSError: another user's link or folder is on the way, or another part of the path is missing.
    """
    at, parts = Path("/"), list(reversed(path.absolute().parts[1:]))
    left = MAX_LINKS
    while parts:
        part = parts.pop()
        if part == "..":
            at = at.parent
            continue
        here = at / part
        try:
            found = here.lstat()
        except FileNotFoundError:
            if parts:
                raise
            return here
        if stat.S_ISLNK(found.st_mode):
            _refuse(here, not _is_own(found), "it is a link of another user")
            left -= 1
            if left < 0:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
            target = here.readlink()
            at = Path("/") if target.is_absolute() else at
            parts += reversed([each for each in target.parts if each != "/"])
            continue
        if parts:
            is_open = bool(at.stat().st_mode & stat.S_IWOTH)
            is_foreign = is_open and not (_is_own(found) or _is_shared(found))
            _refuse(here, is_foreign, f"{at} is world-writable, and {here} belongs to another user")
        at = here
    return at


def shared_folder(path: Path) -> os.stat_result:
    """Return the status of the parent folder of `path`, a path as returned by `trusted_path`.

    Raises:
        PermissionError: the folder is world-writable.
    """
    found = path.parent.stat()
    _refuse(path.parent, bool(found.st_mode & stat.S_IWOTH), f"{path.parent} is world-writable (chmod o-w)")
    return found


def is_of_folder(found: os.stat_result, folder: os.stat_result) -> bool:
    """Return True if a file belongs to this user, root, the folder's owner, or a group that may write there.

    Args:
        found: Status of the file.
        folder: Status of its folder.
    """
    is_of_group = bool(folder.st_mode & stat.S_IWGRP) and found.st_gid == folder.st_gid
    return found.st_uid in (0, os.geteuid(), folder.st_uid) or is_of_group


def own_beside(database: Path) -> bool:
    """Return True if SQLite files (-wal, -shm, -journal) exist beside a database; all of them are trusted.

    Raises:
        PermissionError: another user could have made or changed one of them.
    """
    path = Path(os.path.realpath(database))
    main = path.stat()
    found = False
    for end in BESIDE_SUFFIXES:
        beside = path.with_name(path.name + end)
        try:
            one = beside.lstat()
        except FileNotFoundError:
            continue
        found = True
        is_foreign = one.st_uid not in (0, os.geteuid(), main.st_uid) or not stat.S_ISREG(one.st_mode)
        is_loose = bool(one.st_mode & ~main.st_mode & 0o022)
        _refuse(
            beside, is_foreign or is_loose, f"{beside.name} next to it may belong to another user: remove it"
        )
    return found


def others_may_add(database: Path) -> bool:
    """Return True if users other than this one and root can create files in the folder of a database."""
    folder = Path(os.path.realpath(database)).parent.stat()
    return folder.st_uid not in (0, os.geteuid()) or bool(folder.st_mode & 0o022)


def _is_own(found: os.stat_result) -> bool:
    return found.st_uid in (0, os.geteuid())


def _is_shared(found: os.stat_result) -> bool:
    return bool(found.st_mode & stat.S_IWGRP) and found.st_gid in {os.getegid(), *os.getgroups()}


def _refuse(path: Path, is_refused: bool, why: str) -> None:
    if is_refused:
        raise PermissionError(errno.EPERM, why, str(path))
