"""Keeps fetched log text on disk until the bundle is written, so that an interrupted fetch can resume."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
from dataclasses import dataclass
from pathlib import Path

import msgspec

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.own_folders import make_own
from gpuwatch.session.evidence.log_parts import LogPart

JOURNAL = "journal.jsonl"
MAX_JOURNAL_BYTES = 256 << 20


class SpoolEntry(msgspec.Struct, frozen=True):
    """A line of the journal: how far one log is fetched. The last entry of each log is valid."""

    log: str
    identity: str | None
    next: int
    """Offset in the log at which to resume."""
    written: int
    """Bytes of text stored."""
    done: bool = False


_decoder = msgspec.json.Decoder(SpoolEntry)


@dataclass
class SpooledLog:
    """The file with the fetched text of one log, and where to continue."""

    path: Path
    next: int = 0
    written: int = 0
    done: bool = False


class Spool:
    """The folder `FILE.part` next to the bundle, readable only by its owner; `remove` it after the bundle."""

    def __init__(self, folder: Path, source: str) -> None:
        """Open the folder, with the content of an interrupted fetch of the same source.

        Args:
            folder: Created if missing.
            source: Names the nodes and the subject; a folder of another source is emptied.

        Raises:
            OSError: the folder cannot be created or written, or is a link or another user's.
        """
        self.folder = folder
        make_own(folder)
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            raise NotADirectoryError(errno.ENOTDIR, "a link, or a folder of another user", str(folder))
        folder.chmod(0o700)
        known, about = folder / "source", source.encode("utf-8", "backslashreplace")
        if not known.is_file() or known.read_bytes() != about:
            self.remove()
            make_own(folder)
            _write(known, about, os.O_TRUNC)
        self._known = self._read()
        self.resumed_bytes = sum(entry.written for entry in self._known.values())
        """Bytes of text that an interrupted fetch left."""

    def begin(self, part: LogPart) -> SpooledLog:
        """Return where to continue a log: at its beginning, or where a fetch of the whole log stopped.

        Raises:
            OSError: the spool cannot be written.
        """
        name = hashlib.sha256(f"{part.node}\0{part.file}\0{part.whole}".encode("utf-8", "surrogatepass"))
        log = SpooledLog(self.folder / f"{name.hexdigest()[:24]}.txt")
        entry = self._known.get(log.path.name)
        usable = entry is not None and part.whole and entry.identity == part.identity
        if entry is not None and usable and log.path.is_file() and log.path.stat().st_size >= entry.written:
            os.truncate(log.path, entry.written)  # drop text that the journal does not list
            log.next, log.written, log.done = entry.next, entry.written, entry.done
        else:
            _write(log.path, b"", os.O_TRUNC)
        return log

    def append(
        self, part: LogPart, log: SpooledLog, text: str | bytes, following: int, *, done: bool
    ) -> None:
        """Store text, and record in the journal that the log is fetched up to the offset `following`.

        Raises:
            OSError: the disk is full, or cannot be written.
        """
        data = text.encode("utf-8", "backslashreplace") if isinstance(text, str) else text
        _write(log.path, data, os.O_APPEND)
        log.next, log.written, log.done = following, log.written + len(data), done
        entry = SpoolEntry(log.path.name, part.identity, log.next, log.written, log.done)
        _write(self.folder / JOURNAL, msgspec.json.encode(entry) + b"\n", os.O_APPEND)

    def remove(self) -> None:
        """Delete the folder and its content."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _read(self) -> dict[str, SpoolEntry]:
        found: dict[str, SpoolEntry] = {}
        journal = self.folder / JOURNAL
        if not journal.is_file() or journal.stat().st_size > MAX_JOURNAL_BYTES:
            return found
        for line in journal.read_bytes().splitlines():
            try:
                entry = _decoder.decode(line)
            except DECODE_ERRORS:
                continue  # the last line may be cut off
            found[entry.log] = entry
        return found


def _write(path: Path, data: bytes, how: int) -> None:
    number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | how, 0o600)
    with open(number, "wb") as file:  # noqa: PTH123 - a descriptor
        file.write(data)
