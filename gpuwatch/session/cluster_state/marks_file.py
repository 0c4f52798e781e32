"""The file with a cluster's marks: in the user's state folder, or a group's on a shared file system."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import msgspec

from gpuwatch.file_trust import is_of_folder, shared_folder, trusted_path
from gpuwatch.number_text import limit_text
from gpuwatch.own_folders import make_own
from gpuwatch.session.cluster_state.marks import VERSION, ClusterMarks, lasting, smaller
from gpuwatch.whole_file import lock_beside, write_whole
from gpuwatch.wire.codec import decode_strictly

MAX_FILE_BYTES = 32 << 20
Change: TypeAlias = Callable[[ClusterMarks], ClusterMarks]
Stamp: TypeAlias = tuple[int, int, int]
"""Identity of the file's content (inode, mtime in ns, size): the file is only replaced as a whole."""
_decoder = msgspec.json.Decoder(ClusterMarks)


class MarksError(Exception):
    """Raised if the file of marks cannot be read or written; the message is one sentence with the remedy."""


class DamagedMarksError(ValueError):
    """Raised if the file does not contain marks."""


def file_name(source: str) -> str:
    """Return the name of a cluster's file in the state folder, made from its source (path or node range)."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(source).name)[:60].strip("-.") or "nodes"
    whole = str(Path(source).absolute()) if Path(source).exists() else source
    return f"{stem}-{hashlib.sha256(whole.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}.json"


def _encoded(marks: ClusterMarks) -> tuple[ClusterMarks, bytes]:
    """Return the marks that fit into the file, without the oldest if there are too many, and its content.

    Raises:
        DamagedMarksError: another gpuwatch could not read the marks.
    """
    while True:
        data = msgspec.json.format(msgspec.json.encode(marks), indent=2) + b"\n"
        if len(data) <= MAX_FILE_BYTES or not (marks.notes or marks.acknowledged):
            decode_strictly(data, _decoder, DamagedMarksError)
            return marks, data
        marks = smaller(marks)


class MarksFile:
    """The marks file; it is read as a whole and changed under a lock."""

    def __init__(self, path: Path, *, shared: bool = False) -> None:
        """Set the path of the marks file; with `shared`, users of the folder's group may write it.

        Otherwise only its owner may.
        """
        self.path = path
        self.shared = shared

    def stamp(self) -> Stamp | None:
        """Return (inode, mtime in ns, size) of the file, which shows whether it changed.

        None: it does not exist.

        Raises:
            OSError: the file cannot be opened.
        """
        try:
            number = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        try:
            found = os.fstat(number)  # stat of an open file: NFS then asks the server
            return found.st_ino, found.st_mtime_ns, found.st_size
        finally:
            os.close(number)

    def read(self) -> tuple[ClusterMarks, Stamp | None]:
        """Return the marks in the file and its stamp; empty marks and None if there is no file.

        Raises:
            MarksError: the file cannot be read, is damaged, or was written by a newer version.
        """
        try:
            data, stamp = self._bytes()
            marks = decode_strictly(data, _decoder, DamagedMarksError)
        except FileNotFoundError:
            return ClusterMarks(), None
        except OSError as error:
            raise MarksError(f"{self.path} cannot be read: {error.strerror or error}") from error
        except DamagedMarksError as error:
            raise MarksError(f"{self.path} holds no acknowledgements ({error}); move it away") from error
        if marks.version > VERSION:
            raise MarksError(f"{self.path} was written by a newer gpuwatch; use that, or another path")
        return marks, stamp

    def change(self, change: Change, wall: float) -> tuple[ClusterMarks, Stamp | None]:
        """Apply a change to the current content of the file; return the new marks and the new stamp.

        `wall`: unix seconds.

        Raises:
            MarksError: the file cannot be read or written; it stays unchanged.
        """
        try:
            if not self.shared:
                make_own(self.path.parent)
            path, mode = self._place()
            with lock_beside(path, mode):
                marks = lasting(change(self.read()[0]), wall)
                marks, data = _encoded(marks)
                write_whole(path, data, mode)
                return marks, self.stamp()
        except DamagedMarksError as error:
            raise MarksError(f"{self.path} is left as it was: {error}") from error
        except OSError as error:
            raise MarksError(f"{self.path} cannot be written: {error.strerror or error}") from error

    def _place(self) -> tuple[Path, int]:
        """Return the path, free of links if the file is shared, and the mode: 0600, or 0660 for a group.

        Raises:
            PermissionError: the folder is world-writable, or another user's link is on the path.
        """
        if not self.shared:
            return self.path, 0o600
        path = trusted_path(self.path)
        return path, 0o660 if shared_folder(path).st_mode & stat.S_IWGRP else 0o600

    def _bytes(self) -> tuple[bytes, Stamp]:
        path = self._place()[0]
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
        with open(number, "rb") as file:  # noqa: PTH123 - a descriptor
            found = os.fstat(number)
            why = self._refusal(found, path)
            if why is not None:
                raise PermissionError(errno.EPERM, why)
            return file.read(MAX_FILE_BYTES), (found.st_ino, found.st_mtime_ns, found.st_size)

    def _refusal(self, found: os.stat_result, path: Path) -> str | None:
        foreign = found.st_uid not in (0, os.geteuid())
        if not stat.S_ISREG(found.st_mode):
            return "not a regular file"
        if not self.shared and (foreign or found.st_mode & stat.S_IWGRP):
            return "another user may have written it"
        if self.shared and not is_of_folder(found, shared_folder(path)):
            return f"it belongs to a user without write permission on {path.parent}"
        if found.st_mode & stat.S_IWOTH:
            return "it is world-writable (chmod o-w)"
        return f"larger than {limit_text(MAX_FILE_BYTES)}" if found.st_size > MAX_FILE_BYTES else None
