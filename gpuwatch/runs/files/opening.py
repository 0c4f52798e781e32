"""Opening the files of a folder that others may write to while it is read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import BinaryIO, cast

from gpuwatch.agent.logs.files.regular_file import open_regular


def open_file(path: Path) -> BinaryIO:
    """An unbuffered file to read; as `open_regular`.

    Raises:
        OSError: it may not be read, is no regular file, or a link that may not be followed.
    """
    return cast(BinaryIO, os.fdopen(open_regular(os.fspath(path)), "rb", buffering=0))
