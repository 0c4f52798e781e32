"""The zip file of a bundle: written under a temporary name, renamed when complete."""

from __future__ import annotations

import os
import re
import tempfile
import time
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath

from msgspec import Struct

from gpuwatch.agent.base.regular_file import open_regular
from gpuwatch.agent.masking.secret_forms import MASK
from gpuwatch.whole_file import refuse_device

MAX_NAME_CHARS = 180
CHUNK_BYTES = 1 << 20
_UNUSUAL = re.compile(r"[^A-Za-z0-9._=@+,-]")
_DOTS = re.compile(r"^\.+")


class BundleEntry(Struct, frozen=True):
    """One file of the bundle, and what to write into it."""

    name: str
    content: str | Path | Iterable[str | bytes]
    """The content: a text, an iterable of pieces, or the path of a file."""
    about: str
    """Description for the index."""


def safe_name(text: str) -> str:
    """Return a safe path component (letters, digits, a few signs), so that unpacking stays in its folder."""
    made = _DOTS.sub("_", _UNUSUAL.sub("_", text))[-MAX_NAME_CHARS:]
    return made or "_"


def log_name(node: str, file: str, taken: set[str]) -> str:
    """Return a name for a log that is not in `taken`, and add it: `logs/gpu-003/data_run1_rank_17.log`."""
    stem = f"logs/{safe_name(node)}/{safe_name(file.strip('/').replace('/', '_'))}"
    return unique_name(stem if stem.endswith((".log", ".txt", ".out", ".err")) else f"{stem}.txt", taken)


def unique_name(stem: str, taken: set[str]) -> str:
    """Return a name from `stem` that differs, ignoring case, from all in `taken`; add it and its folders."""
    if any(parent in taken for parent in _folders(stem)):  # a file has the name of its folder
        top, _, rest = stem.partition("/")
        stem = f"{top}/{rest.replace('/', '_')}"
    name, count = stem, 1
    while {name.casefold(), f"{name.casefold()}/"} & taken:
        count += 1
        name = f"{stem}.{count}"
    taken.add(name.casefold())
    taken.update(f"{parent}/" for parent in _folders(name))
    return name


def _folders(name: str) -> list[str]:
    return [str(parent) for parent in PurePosixPath(name.casefold()).parents]


class BundleFile:
    """The zip file being written. Iterate over `steps` to write it; `discard` deletes an incomplete one."""

    def __init__(self, path: Path) -> None:
        """Create the temporary file. `path`: the final name; its folder exists.

        Raises:
            OSError: nothing can be written there.
        """
        refuse_device(path)
        self.path = path
        number, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        os.close(number)
        self._made = Path(name)
        self.masked = 0
        """Number of secrets masked in the written text."""

    def steps(self, entries: Iterable[BundleEntry]) -> Iterator[int]:
        """Write entry by entry, yielding the bytes of content so far; the final name appears at the end.

        Raises:
            OSError: the disk is full, or cannot be written.
        """
        written = 0
        with zipfile.ZipFile(self._made, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
            for entry in entries:
                info = zipfile.ZipInfo(entry.name, time.localtime()[:6])
                info.compress_type, info.external_attr = zipfile.ZIP_DEFLATED, 0o600 << 16
                with archive.open(info, "w", force_zip64=True) as out:
                    for chunk in _chunks(entry.content):
                        out.write(chunk)
                        self.masked += chunk.count(MASK.encode())
                        written += len(chunk)
                        yield written
        with self._made.open("rb") as file:
            os.fsync(file.fileno())
        self._made.replace(self.path)

    def discard(self) -> None:
        """Delete the incomplete file; a file under the final name stays."""
        with suppress(OSError):
            self._made.unlink()


def _chunks(content: str | Path | Iterable[str | bytes]) -> Iterator[bytes]:
    if isinstance(content, Path):
        with os.fdopen(open_regular(os.fspath(content)), "rb") as file:
            while chunk := file.read(CHUNK_BYTES):
                yield chunk
        return
    for piece in (content,) if isinstance(content, str) else content:
        data = piece.encode("utf-8", "backslashreplace") if isinstance(piece, str) else piece
        yield from (data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES))
