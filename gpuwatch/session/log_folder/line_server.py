"""Answers requests for lines of a folder's files, as an agent does for its node's files."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, cast

from gpuwatch.agent.logs.files import pages
from gpuwatch.agent.logs.files.follower import ANEW, TRUNCATED
from gpuwatch.agent.logs.files.tails import FollowedTail
from gpuwatch.agent.logs.ipc.outbox import Outbox, lines_frames
from gpuwatch.runs.files.excerpts.random_access import PieceCache, PlainText, UnpackedText, text_of
from gpuwatch.runs.files.files import reason
from gpuwatch.runs.files.log_path import LogPath
from gpuwatch.wire import ReadLines, Tail

Send = Callable[[bytes], None]
"""Sends one encoded frame."""
MAX_CANCELLED = 1000
MAX_GROWTH_BYTES = 1 << 20
"""Most bytes of a growing file that one check reads; the next check continues there."""


class _FrameOutbox:
    """Replaces the agent's outbox; it sends each frame at once."""

    waiting = 0

    def __init__(self, send: Send) -> None:
        self._send = send

    def put(self, _letter: str, frame: dict[str, Any]) -> None:
        """Send a frame."""
        self._send(json.dumps({**frame, "seq": 0}).encode())


class _OpenFile:
    """A file with its reader and a lock: one thread at a time reads it."""

    def __init__(self, log: LogPath, cache: PieceCache) -> None:
        self.log = log
        self.text: PlainText | UnpackedText = text_of(log, cache)
        self.lock = threading.Lock()


class _RunningTail:
    """A tail and its position in the file."""

    def __init__(
        self, file: _OpenFile, tail: FollowedTail, offset: int, inode: tuple[int, int] | None
    ) -> None:
        self.file = file
        self.tail = tail
        self.offset = offset
        self.inode = inode
        """Device and inode of the file that is followed; None: a packed file, which is not followed."""


class LineServer:
    """Serves pages and tails of a folder's files. Any thread may call it; `follow` sends appended lines."""

    def __init__(self, send: Send) -> None:
        """Create the server. `send` takes encoded frames, from any thread."""
        self._send = send
        self._outbox = _FrameOutbox(send)
        self._cache = PieceCache()
        self._files: dict[str, _OpenFile] = {}
        self._tails: dict[int, _RunningTail] = {}
        self._cancelled: deque[int] = deque(maxlen=MAX_CANCELLED)
        """Numbers of requests that were cancelled (before or after the answer)."""
        self._lock = threading.Lock()

    def take_files(self, logs: Iterable[LogPath]) -> None:
        """Replace the list of files; unchanged files stay open."""
        with self._lock:
            before = self._files
            self._files = {}
            for log in logs:
                known = before.get(log.name)
                same = known is not None and (known.log.path, known.log.packing) == (log.path, log.packing)
                self._files[log.name] = known if known is not None and same else _OpenFile(log, self._cache)
                self._files[log.name].log = log

    def answer(self, request: Tail | ReadLines) -> None:
        """Send the answer to a request.

        If the file is missing or unreadable, an empty answer with the reason.
        """
        file = self._files.get(request.file)
        try:
            if file is None:
                self._end(request.id, request.file, "not among the files of this folder")
            else:
                with file.lock:
                    self._tail(request, file) if isinstance(request, Tail) else self._read(request, file)
        except OSError as error:
            self._end(request.id, request.file, reason(error))
        except Exception as error:  # an exception in a thread: the requester would wait forever
            self._end(request.id, request.file, f"internal error, please report it: {error!r}")

    def cancel(self, number: int) -> None:
        """Cancel the tail with this request number, even if the tail is not open yet."""
        with self._lock:
            if self._tails.pop(number, None) is None:
                self._cancelled.append(number)

    def follow(self, now: float, wall: float) -> None:
        """Send what was appended to files with a tail; end the tails whose file cannot be read.

        `now`: monotonic, `wall`: unix seconds.
        """
        for number, running in list(self._tails.items()):
            why = self._trouble(running, now, wall)
            if why is not None:
                self._tails.pop(number, None)
                self._end(number, running.file.log.name, why)

    def _trouble(self, running: _RunningTail, now: float, wall: float) -> str | None:
        """Send what was appended to one file; return the reason if that fails, else None."""
        try:
            with running.file.lock:
                self._follow(running, now, wall)
        except OSError as error:
            return reason(error)
        return None

    def _follow(self, running: _RunningTail, now: float, wall: float) -> None:
        text = running.file.text
        if not isinstance(text, PlainText):
            return
        found, data = text.read_named(running.offset, MAX_GROWTH_BYTES)
        is_same = (found.st_dev, found.st_ino) == running.inode
        if not is_same or found.st_size < running.offset:
            running.tail.seam(TRUNCATED if is_same else ANEW)
            running.offset, running.inode = 0, (found.st_dev, found.st_ino)
        elif data:
            running.tail.feed(data, running.offset, wall, now)
            running.offset += len(data)
        else:
            running.tail.quiet(now, wall)

    def _tail(self, request: Tail, file: _OpenFile) -> None:
        size, inode = file.text.size, None
        if isinstance(file.text, PlainText):
            found, _ = file.text.read_named(0, 0)
            inode, size = (found.st_dev, found.st_ino), found.st_size
        start = pages.tail_start(file.text.read_at, size, request.lines)
        start = start if request.offset is None else max(start, min(request.offset, size))
        data = file.text.read_at(start, size - start)
        tail = FollowedTail(request.id, request.file, cast(Outbox, self._outbox), until=file.log.until)
        with self._lock:
            if request.id in self._cancelled:
                return
            self._tails[request.id] = _RunningTail(file, tail, start + len(data), inode)
        count = pages.MAX_ROWS if request.offset is not None else request.lines
        tail.begin(data, start, min(count, pages.MAX_ROWS), size)

    def _read(self, request: ReadLines, file: _OpenFile) -> None:
        read_at, size, until = file.text.read_at, file.text.size, file.log.until
        offset = size if request.offset is None else max(0, request.offset)
        if request.offset is None and request.time is not None:
            found = pages.offset_of_time(read_at, size, request.time, until)
            if found is None:
                self._end(request.id, request.file, f"no line of {request.file} has a time")
                return
            offset = found
        rows = pages.around(read_at, size, offset, (request.before, request.after), request.bare, until)
        self._send_lines(request.id, request.file, rows, size=size, done=True)

    def _end(self, number: int, file: str, error: str) -> None:
        self._send_lines(number, file, [], done=True, error=error[:500])

    def _send_lines(self, number: int, file: str, rows: list[list[Any]], **rest: object) -> None:
        for frame in lines_frames(number, file, rows, **rest):
            self._outbox.put("L", frame)
