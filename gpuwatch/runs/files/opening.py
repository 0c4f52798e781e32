"""Opens files of folders that others may modify at the same time."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

from gpuwatch.agent.base.regular_file import NOT_REGULAR, open_regular

_IN_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK | os.O_NOFOLLOW


class _FileThatAnswers(io.FileIO):
    """A file whose reads fail instead of blocking, such as /proc/kmsg without data."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(-1 if size is None else size)
        if data is None:
            raise _no_data()
        return data

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - a writable buffer
        size = super().readinto(buffer)
        if size is None:
            raise _no_data()
        return size


def _no_data() -> BlockingIOError:
    return BlockingIOError(errno.EAGAIN, "it has no data now, and is not a regular file")


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for unbuffered reading.

    Raises:
        OSError: the file may not be read, is no regular file, or is a link that may not be followed.
    """
    return cast(BinaryIO, _FileThatAnswers(open_regular(os.fspath(path)), "rb"))


def open_below(folder: Path, path: str) -> int:
    """Open a regular file below a folder without following links (one may just have been created).

    Return the file's descriptor.

    Raises:
        OSError: the file does not exist, may not be read, is no regular file, or a link is on the path.
    """
    *folders, name = Path(path).parts
    within = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for each in folders:
            deeper = os.open(each, _IN_FOLDER | os.O_DIRECTORY, dir_fd=within)
            os.close(within)
            within = deeper
        number = os.open(name, _IN_FOLDER, dir_fd=within)
    finally:
        os.close(within)
    if not stat.S_ISREG(os.fstat(number).st_mode):
        os.close(number)
        raise OSError(errno.EINVAL, NOT_REGULAR, str(folder / path))
    return number


def open_buffered(path: Path) -> BinaryIO:
    """Open a regular file for buffered reading, for lines and small records.

    Raises:
        OSError: the same as `open_file`.
    """
    return io.BufferedReader(cast(io.FileIO, open_file(path)))


def beginning(path: Path) -> Callable[[int], bytes]:
    """Return a function that takes a number and returns up to that many bytes of a file's beginning.

    The function raises OSError if the file cannot be read.
    """

    def read(most: int) -> bytes:
        with open_file(path) as file:
            return file.read(most)

    return read
