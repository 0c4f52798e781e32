"""A file that is written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file of an existing folder; nobody but its owner may read it.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    number, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with open(number, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(data)
        os.replace(name, path)  # noqa: PTH105 - mkstemp gives a string
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise
