"""Reads a growing log file without losing or repeating data, whatever a rotation does.

The file is read by `pread` at the current offset, and its size is checked at every poll (inotify does not
work on network file systems). Before new data, the last bytes are read again: if they differ, the file was
rewritten meanwhile, even if it is longer than before.
"""

import errno
import os
import stat

from ...base.regular_file import NOT_REGULAR, modified_at, open_regular
from .fingerprint import Fingerprint, of_shared_file
from .rotation import copied_to, rotated_meanwhile, signature, succeeds

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

MARK_BYTES = 64
QUIET_S = 2.0
"""Seconds of silence after which a rotated file is finished, even if its successor is empty."""
DELETED_S = 10.0
"""Seconds for which a deleted file is kept open after its last line."""
REFRESH_S = 2.0
"""Seconds between reopenings on a network file system: NFS may report an old size until then."""

OTHER_OWNER = "another user has taken the name of the log"
TRUNCATED, ROTATED, ANEW = "truncated", "rotated", "made anew"


class Piece(object):
    """Consecutive bytes of a file, and a change of the file (rotation, truncation) before them."""

    __slots__ = ("data", "offset", "seam")

    def __init__(self, data: bytes, offset: int, seam: "str | None") -> None:
        self.data = data
        self.offset = offset
        self.seam = seam


class Follower(object):
    """Follows the file at one path. `offset` is the next byte to read of the current file (device, inode)."""

    def __init__(
        self,
        path: str,
        clock: "Callable[[], float]",
        taken: "Callable[[tuple[int, int]], bool] | None" = None,
        owner: "int | None" = None,
    ) -> None:
        """Prepare to follow.

        Args:
            path: The path of the log.
            clock: Seconds that only increase.
            taken: Returns True if another follower has the file (device, inode).
            owner: The user (uid) of the log; None: whose the file is that is opened first.
        """
        self.path = path
        self.owner = owner
        self.merged = False
        """True if the path now names a file that another follower has; the old one was read to its end."""
        self.remote = False
        """True on a network file system."""
        self.entered_at = 0.0
        """Last modification of the current file when it was opened (unix seconds)."""
        self.device = self.inode = self.offset = self.size = self.seams = 0
        self.gone = False
        self.finished: list[tuple[int, int, int]] = []
        """(device, inode, bytes) of files that were read to their end; the owner takes them."""
        self._clock = clock
        self._taken = taken
        self._refreshed = clock()
        self._descriptor = -1
        self._fingerprint = Fingerprint(clock)
        self._mark = b""
        self._modified = 0
        self._grew = clock()
        self._next: list[tuple[str, int, int]] = []
        """(path, inode, offset) of files to read after the current one."""
        self._seam: str | None = None
        self._copy: tuple[str, int, int, int] | None = None
        """Signature of the copy made at the last truncation."""

    def open(self, offset: "int | None" = None) -> None:
        """Open the file at this offset, or at its end if None.

        Raises:
            OSError: it is not there, may not be read, or is no regular file.
        """
        self._enter(self.path)
        self.offset = self.size if offset is None else min(offset, self.size)
        self._mark = self._before(self.offset)

    def close(self) -> None:
        """Close the file."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def closed(self) -> bool:
        """Return True if no file is open."""
        return self._descriptor < 0

    def fingerprint(self) -> "str | None":
        """Return a key by which nodes find that they see the same file; None: not open, empty or unreadable.

        See `fingerprint`.
        """
        if self._descriptor < 0:
            return None
        return (of_shared_file if self.remote else self._fingerprint.of)(self._descriptor)

    @property
    def behind(self) -> int:
        """Return the number of bytes not read yet, as of the last look at the file's size."""
        return max(0, self.size - self.offset)

    def read(self, budget: int) -> "Piece | None":
        """Return new data, at most `budget` bytes; None if there is none.

        Raises:
            OSError: the file cannot be read any more.
        """
        if self._descriptor < 0:
            return self._reappear(budget)
        if self._next:
            return self._more(budget) or self._advance(budget)
        self._refresh()
        try:
            found = os.stat(self.path)
        except OSError as error:
            return self._out_of_sight(error, budget)
        self.gone = False
        if (found.st_dev, found.st_ino) != (self.device, self.inode):
            return self._replaced(found, budget)
        self.size = found.st_size
        if found.st_size == self.offset and found.st_mtime_ns == self._modified:
            return None
        self._modified = found.st_mtime_ns
        if found.st_size < self.offset or self._copied_again() is not None:
            return self._rewritten(budget)
        return self._more(budget)

    def at(self, offset: int, count: int) -> bytes:
        """Return up to `count` bytes of the current file at an offset; empty if there are none."""
        if self._descriptor < 0:
            return b""
        return os.pread(self._descriptor, count, offset)

    # ----------------------------------------------------------------- the file we are in

    def _more(self, budget: int) -> "Piece | None":
        data = os.pread(self._descriptor, budget + len(self._mark), self.offset - len(self._mark))
        if data[: len(self._mark)] != self._mark:
            return self._rewritten(budget)
        data = data[len(self._mark) :]
        if not data:
            return None
        piece = Piece(data, self.offset, self._seam)
        self._seam = None
        self.offset += len(data)
        self.size = max(self.size, self.offset)
        self._mark = (self._mark + data)[-MARK_BYTES:] if len(data) < MARK_BYTES else data[-MARK_BYTES:]
        self._grew = self._clock()
        return piece

    def _rewritten(self, budget: int) -> "Piece | None":
        """Continue after a truncation: in the copy that copytruncate made, if any, then at byte 0.

        Return the first piece, or None.
        """
        self._reported(TRUNCATED)
        copy = copied_to(self.path, os.fstat(self._descriptor), self.offset, self._mark)
        again = self._copied_again()
        if copy is None and again is not None:
            copy = again[0], again[1], 0
        self._next = [(self.path, self.inode, 0)]
        if copy is not None:
            self._next.insert(0, copy)
            self._copy = signature(copy[0])
        return self._advance(budget, left=False)

    def _copied_again(self) -> "tuple[str, int, int, int] | None":
        """Return the signature of a copy that copytruncate made between two reads; None: there is none."""
        if self._copy is None or self.offset:
            return None
        now = signature(self._copy[0])
        return None if now == self._copy else now

    def _before(self, offset: int) -> bytes:
        begin = max(0, offset - MARK_BYTES)
        return os.pread(self._descriptor, offset - begin, begin)

    # ----------------------------------------------------------------- from one file to the next

    def _replaced(self, found: "os.stat_result", budget: int) -> "Piece | None":
        """Return the next piece after another file has appeared at the path; None if there is none yet.

        The old file is read to its end, until the writer uses the new one.
        """
        if not stat.S_ISREG(found.st_mode):
            piece = self._more(budget)
            if piece is None:
                raise OSError(0, NOT_REGULAR, self.path)
            return piece
        if self.owner is not None and not succeeds(found, self.owner):
            piece = self._more(budget)
            if piece is None:
                raise OSError(errno.EACCES, OTHER_OWNER, self.path)
            return piece
        if self._taken is not None and self._taken((found.st_dev, found.st_ino)):
            piece = self._more(budget)
            if piece is None:
                self.finished.append((self.device, self.inode, self.offset))
                self.merged = True
            return piece
        if not found.st_size and self._clock() - self._grew < QUIET_S:
            return self._more(budget)
        ours = os.fstat(self._descriptor)
        self._reported(ROTATED if ours.st_nlink else ANEW)
        self._next = rotated_meanwhile(self.path, ours, found) + [(self.path, found.st_ino, 0)]
        return self._more(budget) or self._advance(budget)

    def _advance(self, budget: int, left: bool = True) -> "Piece | None":
        """Continue with the next file that has data, and return its first piece; None if none has."""
        while self._next:
            path, inode, offset = self._next.pop(0)
            if left:
                self.finished.append((self.device, self.inode, self.offset))
            left = True
            try:
                self._enter(path)
            except OSError:
                continue
            if self.inode != inode and path != self.path:
                continue  # it has been renamed meanwhile
            self.offset = offset if self.inode == inode else 0
            self._mark = self._before(self.offset)
            piece = self._more(budget)
            if piece is not None:
                return piece
        return None

    def _enter(self, path: str) -> None:
        descriptor = open_regular(path)
        found = os.fstat(descriptor)
        if self.owner is None:
            self.owner = found.st_uid
        elif not succeeds(found, self.owner):
            os.close(descriptor)
            raise OSError(errno.EACCES, OTHER_OWNER, path)
        self.close()
        self._descriptor = descriptor
        self.device, self.inode, self.size = found.st_dev, found.st_ino, found.st_size
        self.entered_at = modified_at(found)
        self._modified, self._mark = 0, b""

    def _out_of_sight(self, error: OSError, budget: int) -> "Piece | None":
        if _is_gone(error):
            return self._deleted(budget)
        piece = self._more(budget)
        if piece is None:
            raise error  # it is there, but we may not see it
        return piece

    def _deleted(self, budget: int) -> "Piece | None":
        self.gone = True
        piece = self._more(budget)
        if piece is None and self._clock() - self._grew > DELETED_S:
            self.finished.append((self.device, self.inode, self.offset))
            self.close()
        return piece

    def _reappear(self, budget: int) -> "Piece | None":
        try:
            self._enter(self.path)
        except OSError as error:
            if not _is_gone(error):
                raise
            self.gone = True
            return None
        self.gone = False
        self.offset = 0
        self._reported(ANEW)
        return self._more(budget)

    def _reported(self, seam: str) -> None:
        self.seams += 1
        self._seam = self._seam or seam

    def _refresh(self) -> None:
        if self.remote and self._clock() - self._refreshed >= REFRESH_S:
            self._refreshed = self._clock()
            try:
                os.close(open_regular(self.path))
            except OSError:
                pass


def _is_gone(error: OSError) -> bool:
    return error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE)
