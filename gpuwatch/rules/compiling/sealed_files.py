"""Files of the cache folder, each with a digest of its name and content: anything else is not read."""

from __future__ import annotations

import contextlib
import hashlib
import os
from pathlib import Path

from gpuwatch.own_folders import make_own
from gpuwatch.whole_file import read_own, write_whole

MAX_CACHE_BYTES = 64 << 20


def read_sealed(file: Path) -> bytes | None:
    """Return the content of a file that `write_sealed` wrote under this name.

    None: it is missing, damaged, too large, a link, or others may write it.
    """
    try:
        digest, _, data = read_own(file, MAX_CACHE_BYTES, follow=False).partition(b"\n")
        if digest != seal(file.name, data):
            return None
        os.utime(file)  # files in use are kept
    except OSError:
        return None
    return data


def write_sealed(file: Path, data: bytes, most: int) -> None:
    """Write a cache file, and create its folder if it is missing; errors of the file system are ignored.

    `most`: how many files to keep, those used last, of those with the same suffix and the same name up to the
    first `-`.
    """
    with contextlib.suppress(OSError):
        make_own(file.parent)
        write_whole(file, seal(file.name, data) + b"\n" + data)
        alike = file.parent.glob(f"{file.name.partition('-')[0]}-*{file.suffix}")
        for old in sorted(alike, key=lambda each: each.stat().st_mtime)[:-most]:
            old.unlink(missing_ok=True)


def seal(name: str, data: bytes) -> bytes:
    """Return the digest (SHA-256, hexadecimal) of a cache file's name and content, its first line."""
    return hashlib.sha256(name.encode() + b"\n" + data).hexdigest().encode()
