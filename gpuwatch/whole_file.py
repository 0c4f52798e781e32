"""A small file of the person's settings, written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file; its folder is made.

    Raises:
        OSError: it cannot be written; what was there stays.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    number, name = tempfile.mkstemp(dir=path.parent, prefix=path.name)
    try:
        with open(number, "wb") as file:  # noqa: PTH123 - a descriptor
            file.write(data + b"\n")
        os.replace(name, path)  # noqa: PTH105 - mkstemp gives a string
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise
