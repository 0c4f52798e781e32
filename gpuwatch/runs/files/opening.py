"""Opening the files of a folder that others may write to while it is read."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import Any, BinaryIO, cast

from gpuwatch.agent.logs.files.regular_file import open_regular


class _FileThatAnswers(io.FileIO):
    """What has no data yet and would be waited for, as /proc/kmsg, counts as unreadable."""

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
    return BlockingIOError(errno.EAGAIN, "it has no data now, and is no file of a disk")


def open_file(path: Path) -> BinaryIO:
    """An unbuffered file to read; as `open_regular`.

    Raises:
        OSError: it may not be read, is no regular file, or a link that may not be followed.
    """
    return cast(BinaryIO, _FileThatAnswers(open_regular(os.fspath(path)), "rb"))


def open_buffered(path: Path) -> BinaryIO:
    """The same with a buffer, for readers of lines and of small records.

    Raises:
        OSError: as `open_file`.
    """
    return io.BufferedReader(cast(io.FileIO, open_file(path)))
