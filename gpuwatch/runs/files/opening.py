"""Opening the files of a folder that others may write to while it is read."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path
from typing import BinaryIO, cast

from gpuwatch.agent.logs.files.regular_file import open_regular


class _FileThatAnswers(io.FileIO):
    """What has no data yet and would be waited for, as /proc/kmsg, counts as unreadable."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(-1 if size is None else size)
        if data is None:
            raise BlockingIOError(errno.EAGAIN, "it has no data now, and is no file of a disk")
        return data


def open_file(path: Path) -> BinaryIO:
    """An unbuffered file to read; as `open_regular`.

    Raises:
        OSError: it may not be read, is no regular file, or a link that may not be followed.
    """
    return cast(BinaryIO, _FileThatAnswers(open_regular(os.fspath(path)), "rb"))
