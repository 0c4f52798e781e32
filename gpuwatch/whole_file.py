"""The user's own files: written atomically, and read only if no other user can have written them."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from gpuwatch.number_text import limit_text

OF_SHELL = (("/", "dev", "fd"), ("/", "proc", "self"))
"""Paths of a shell's pipes."""
LOCK_S = 1.0
"""Maximum seconds to wait for another gpuwatch, which holds the lock for milliseconds."""


OWN_MODE = 0o600
MAX_LINKS = 40
"""The kernel's limit of links in one path."""


def write_whole(path: Path, data: bytes, mode: int = OWN_MODE) -> None:
    """Replace or create a file atomically; its folder must exist.

    Only its owner may read it, unless `mode` gives others rights.

    Raises:
        OSError: it cannot be written, or `path` is a folder, device or pipe; the previous content stays.
    """
    with replaced_whole(path, mode) as file:
        file.write(data)


@contextlib.contextmanager
def replaced_whole(path: Path, mode: int = OWN_MODE) -> Iterator[BinaryIO]:
    """Yield a new file to write; it replaces `path` atomically if the block ends without an exception.

    The new file has an unpredictable temporary name, and no link is followed: files that another user has put
    into the folder are never written to.

    Raises:
        OSError: the same as `write_whole`.
    """
    refuse_device(path)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with open(number, "wb") as file:  # noqa: PTH123 - a descriptor
            yield file
            _give(number, path.parent, mode)
        os.replace(name, path)  # noqa: PTH105 - mkstemp gives a string
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108 - relative to a descriptor
        raise


def _give(number: int, folder: Path, mode: int) -> None:
    """Give our open file the folder's group and the rights `mode`; do nothing if `mode` is `OWN_MODE`."""
    if mode != OWN_MODE and os.fstat(number).st_uid == os.geteuid():
        with contextlib.suppress(OSError):
            os.fchown(number, -1, folder.stat().st_gid)
        os.fchmod(number, mode)


def refuse_device(path: Path) -> None:
    """Refuse an existing path that is no regular file: root could otherwise replace /dev/null.

    Raises:
        OSError: a folder, device or pipe is there.
    """
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "not a file but a folder, device or pipe", str(path))


def own_target(path: Path) -> Path:
    """Return the file that a path leads to; a link at its end is followed if it is of this user or of root.

    Raises:
        OSError: a link belongs to another user, who could choose the file that is written, or links form a
            loop.
    """
    at = path
    for _ in range(MAX_LINKS):
        try:
            found = at.lstat()
        except FileNotFoundError:
            return at
        if not stat.S_ISLNK(found.st_mode):
            return at
        if found.st_uid not in (0, os.geteuid()):
            raise PermissionError(errno.EPERM, "it is a link of another user", str(path))
        at = at.parent / at.readlink()
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))


def open_in_place(path: Path, mode: int = OWN_MODE) -> int:
    """Return a descriptor that overwrites a file in place (created if missing) or writes to a device.

    A file is truncated only after it is known that no other user's link has led to it.

    Raises:
        OSError: it cannot be opened, or the errors of `own_target`.
    """
    own_target(path)
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOCTTY, mode)
    try:
        own_target(path)
        if stat.S_ISREG(os.fstat(number).st_mode):
            _empty(number, path)
    except BaseException:
        os.close(number)
        raise
    return number


def _empty(number: int, path: Path) -> None:
    if not os.path.samestat(os.fstat(number), path.stat()):
        raise OSError(errno.ESTALE, "it was replaced while it was opened", str(path))
    os.ftruncate(number, 0)


@contextlib.contextmanager
def lock_beside(path: Path, mode: int = OWN_MODE) -> Iterator[None]:
    """Hold an exclusive lock on `path` with the suffix `.lock`; the file itself is replaced.

    `mode`: the rights of the lock, if others share the file.

    Raises:
        OSError: it cannot be created, or another process holds it for longer than `LOCK_S`.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    number = os.open(path.with_suffix(".lock"), flags, OWN_MODE)
    try:
        _give(number, path.parent, mode)
        until = time.monotonic() + LOCK_S
        while True:
            try:
                fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.01)
        yield
    finally:
        os.close(number)


def set_aside(path: Path) -> Path:
    """Rename a damaged file to `NAME.damaged`, so that a new one can be created; return the new path.

    An earlier file of that name is replaced.

    Raises:
        OSError: it cannot be renamed.
    """
    aside = path.with_name(f"{path.name}.damaged")
    path.replace(aside)
    return aside


def read_bounded(path: Path, most: int) -> bytes:
    """Read at most `most` bytes of a file that the user names, which may be a pipe of the shell (`<(...)`).

    It never blocks: neither on a pipe without a writer nor on a terminal.

    Raises:
        OSError: it cannot be read, or is a named pipe; `strerror` states which.
    """
    number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
    try:
        mode = os.fstat(number).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        is_pipe = stat.S_ISFIFO(mode)
        if is_pipe and path.parts[:3] not in OF_SHELL:
            raise PermissionError(errno.EPERM, "a named pipe, not a file", str(path))
        os.set_blocking(number, is_pipe)
        with open(number, "rb", closefd=False) as file:
            return file.read(most) or b""  # a terminal without a key gives None
    finally:
        os.close(number)


def read_own(path: Path, most: int, *, follow: bool = True) -> bytes:
    """Return the content of a file that belongs to this user or root, and that no other user may write.

    Args:
        path: The file.
        most: Bytes; a larger file is refused.
        follow: True if it may be a link.

    Raises:
        FileNotFoundError: it does not exist.
        OSError: it cannot be read, is no regular file or too large, or others may write it; `strerror` states
            which.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    number = os.open(path, flags)
    with open(number, "rb") as file:  # noqa: PTH123 - a descriptor
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode):
            why = "not a regular file"
        elif found.st_uid not in (0, os.geteuid()):
            why = "it belongs to another user"
        elif found.st_mode & 0o022:
            why = "other users can write to it (chmod go-w)"
        elif found.st_size > most:
            why = f"larger than {limit_text(most)}"
        else:
            return file.read(most)
    raise PermissionError(errno.EPERM, why, str(path))
