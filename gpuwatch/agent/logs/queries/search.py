"""Searches files for a user's pattern in a separate process, so that an endless search blocks nothing else.

The process is forked from the single-threaded log reader, so it starts at once; it is killed when cancelled,
or when it sends nothing for `STALL_CPU_S` of work.
"""

import json
import os
import re
import signal
import time

from ...base.procfs import names
from ...base.regular_file import open_regular
from ..files.entry import shown
from ..ipc.lifeline import die_with
from ..ipc.outbox import lines_frames
from ..ipc.process_stats import cpu_s
from ..lines.rows import row
from ..lines.splitter import Splitter

try:
    from re import _parser as parser  # type: ignore[attr-defined]  # private, and its name in 3.11 and later
except ImportError:
    import sre_parse as parser  # its name before Python 3.11

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Callable, Iterable, Iterator, Sequence

STALL_CPU_S = 3.0
STALL_S = 15.0
PROGRESS_S = 0.25
BLOCK_BYTES = 1 << 20
MAX_FOUND = 20000
_MAX_ROWS = 200
"""Most rows per frame."""


class SearchPlan(object):
    """The plan of a search: the request's number, the pattern, the limit, and a literal in all matches."""

    def __init__(self, request: "dict[str, Any]") -> None:
        """Read the plan from a request.

        Raises:
            ValueError: The pattern is no regular expression, or something is missing.
        """
        self.number = request["id"]
        pattern = request.get("pattern")
        if not isinstance(pattern, str) or not pattern:
            raise ValueError("a search needs a pattern")
        try:
            self.pattern = re.compile(pattern, re.IGNORECASE if request.get("ignore_case") else 0)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError("no regular expression: {}".format(error)) from None
        self.limit = min(MAX_FOUND, max(1, int(request.get("limit", 2000))))
        self.literal, self.fold = literal_of(pattern, self.pattern.flags)


def literal_of(pattern: str, flags: int = 0) -> "tuple[bytes, bool]":
    """Return (bytes that every matching line contains, may be empty; True if case is ignored)."""
    parsed = parser.parse(pattern, flags)
    state = getattr(parsed, "state", None) or parsed.pattern  # its name before Python 3.8
    fold = bool(state.flags & re.IGNORECASE)
    runs = [""]
    for operation, argument in parsed:
        if operation is parser.LITERAL:
            runs[-1] += chr(argument)
        else:
            runs.append("")
    pieces = [piece for run in runs for piece in run.split("    ")]  # a tab of the file is shown so
    best = max(pieces, key=len)
    if fold and not all(ord(char) < 128 for char in best):
        return b"", fold
    return (best.lower() if fold else best).encode("utf-8", "replace"), fold


def search(plan: "SearchPlan", files: "list[str]", send: "Callable[[dict[str, Any]], object]") -> None:
    """Search files and send `wire.Lines` frames, the last one marked `done`."""
    sizes = [(path, _size(path)) for path in files]
    reporter = SearchReporter(plan, float(sum(size for _, size in sizes)) or 1.0, send)

    def search_file(file: "tuple[str, int]", at: int) -> "int | None":
        try:
            return _search_file(plan, file[0], file[1], reporter, at)
        except OSError as error:
            reporter.trouble = "{}: {}".format(shown(file[0]), error.strerror or error)
            return None

    search_in_turns(sizes, search_file, reporter)
    reporter.end()


def search_in_turns(
    files: "Sequence[Any]", search_file: "Callable[[Any, int], int | None]", reporter: "SearchReporter"
) -> None:
    """Search files in turns, so that each may send an equal share of the remaining matches.

    Files with fewer matches leave the rest of their share to the others.

    Args:
        files: The files, each of the type that `search_file` takes.
        search_file: Searches a file from a byte on; returns where its share ended, None at its end.
        reporter: Counts the matches that may still be sent.
    """
    waiting = [(file, 0) for file in files]
    while waiting and reporter.rest:
        cut = []
        for number, (file, at) in enumerate(waiting):
            reporter.left = (reporter.rest + len(waiting) - number - 1) // (len(waiting) - number)
            stopped = search_file(file, at) if reporter.left else at
            if stopped is not None:
                cut.append((file, stopped))
        waiting = cut
    if waiting and reporter.trouble is None:
        reporter.trouble = "further lines match in {:,} files".format(len(waiting))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 1  # opening it states why


class SearchReporter(object):
    """Sends the matches of a search in small batches, and its progress."""

    def __init__(self, plan: "SearchPlan", total: float, send: "Callable[[dict[str, Any]], object]") -> None:
        self.left = self.rest = plan.limit
        """Matches that are still sent: of this file, and of all."""
        self.next = 0
        """The byte behind the last match."""
        self.trouble: str | None = None
        self.until: float | None = None
        """Unix seconds, the latest time of lines whose time has no year; None: now."""
        self._number = plan.number
        self._total = total
        self._send = send
        self._done = 0.0
        self._file = ""
        self._rows: list[list[Any]] = []
        self._sent = time.monotonic()

    def found(self, path: str, one: "tuple[int, int, str]") -> None:
        """Add a matching line, and send the batch if it is full."""
        if self._rows and self._file != path:
            self._flush()
        self._file = path
        self._rows.append(row(*one, arrived=None, until=self.until))
        self.left, self.rest, self.next = self.left - 1, self.rest - 1, one[1]
        if len(self._rows) >= _MAX_ROWS:
            self._flush()

    def went(self, count: int) -> None:
        """Record that `count` more bytes were searched, and send the progress when due."""
        self._done += count
        if time.monotonic() - self._sent >= PROGRESS_S:
            self._flush()

    def end(self) -> None:
        """Send the remaining matches and the last frame."""
        self._flush(done=True, error=self.trouble)

    def _flush(self, **rest: "Any") -> None:
        self._sent = time.monotonic()
        progress = 1.0 if "done" in rest else min(1.0, round(self._done / self._total, 4))
        for frame in lines_frames(self._number, shown(self._file), self._rows, progress=progress, **rest):
            self._send(frame)
        self._rows = []


def _search_file(
    plan: "SearchPlan", path: str, size: int, reporter: "SearchReporter", at: int
) -> "int | None":
    """Search a file from byte `at` on; return where its share of the matches ended, None at its end.

    Blocks without the literal are skipped at memory speed.

    Raises:
        OSError: it cannot be read.
    """
    descriptor = open_regular(path)
    try:
        return search_pieces(plan, path, _pieces(descriptor, size, at), reporter, at)
    finally:
        os.close(descriptor)


def _pieces(descriptor: int, size: int, at: int) -> "Iterator[tuple[bytes, int]]":
    while at < size:
        data = os.pread(descriptor, min(BLOCK_BYTES, size - at), at)
        if not data:
            return
        yield data, len(data)
        at += len(data)


def search_pieces(
    plan: "SearchPlan", path: str, pieces: "Iterable[tuple[bytes, int]]", reporter: "SearchReporter", at: int
) -> "int | None":
    """Search a file from byte `at` on; return where its share of the matches ended, None at its end.

    `pieces`: its bytes in order, each with the number of file bytes read for it.
    """
    rest = b""
    for data, count in pieces:
        block, begin = rest + data, at - len(rest)
        cut = block.rfind(b"\n") + 1
        if not cut and len(block) >= 2 * BLOCK_BYTES:
            cut = len(block)  # no line is as long as this
        rest = block[cut:]
        _search_block(plan, path, block[:cut], begin, reporter)
        at += len(data)
        reporter.went(count)
        if reporter.left <= 0:
            return reporter.next
    if rest:
        _search_block(plan, path, rest, at - len(rest), reporter)
    return None if reporter.left else reporter.next


def _search_block(
    plan: "SearchPlan", path: str, block: bytes, begin: int, reporter: "SearchReporter"
) -> None:
    literal = plan.literal
    if not literal:
        _search_lines(plan, path, block, begin, reporter)
        return
    sought = block.lower() if plan.fold else block
    found, at = sought.find(literal), 0
    while found >= 0 and reporter.left > 0:
        start = max(block.rfind(b"\n", 0, found) + 1, at)
        end = block.find(b"\n", found) + 1 or len(block)
        _search_lines(plan, path, block[start:end], begin + start, reporter)
        at = end
        found = sought.find(literal, end)


def _search_lines(
    plan: "SearchPlan", path: str, data: bytes, offset: int, reporter: "SearchReporter"
) -> None:
    splitter = Splitter()
    rows = splitter.feed(data, offset)
    tail = splitter.tail()
    for one in rows if tail is None else rows + [tail]:
        if plan.pattern.search(one[2]):
            reporter.found(path, one)
            if reporter.left <= 0:
                return


class RunningSearch(object):
    """A search that runs in a child process, as the log reader handles it."""

    def __init__(
        self, plan: "SearchPlan", files: "Sequence[Any]", search: "Callable[..., object]" = search
    ) -> None:
        """Start a process that runs `search` over the files and sends the results."""
        self.number = plan.number
        self.pid, self.descriptor = _fork(plan, files, search)
        self.ended = False
        self._rest = b""
        self._received = (time.monotonic(), cpu_s(self.pid)[0])

    def read(self) -> "list[str]":
        """Return the frames received, as JSON text; `ended` is set after the last one.

        Raises:
            BlockingIOError: nothing has arrived.
        """
        data = os.read(self.descriptor, 1 << 18)
        if not data:
            self.ended = True
        self._received = (time.monotonic(), cpu_s(self.pid)[0])
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        return [line.decode("ascii") for line in lines]

    def stalled(self) -> "str | None":
        """Return why the search must be given up; None: it is making progress."""
        then, before = self._received
        cpu, state = cpu_s(self.pid)
        if cpu - before > STALL_CPU_S:
            return "the pattern takes too long on a single line; the search was given up"
        if time.monotonic() - then > STALL_S and state not in ("R", "T", "t"):
            return "a read does not return; the search was given up"
        return None

    def listening(self) -> None:
        """Restart the limit on silence, after a time in which the output was not read."""
        self._received = (time.monotonic(), cpu_s(self.pid)[0])

    def end(self) -> None:
        """Kill and reap the search process; one that hangs in the kernel is abandoned."""
        os.close(self.descriptor)
        try:
            os.kill(self.pid, signal.SIGKILL)
            for _ in range(20):
                if os.waitpid(self.pid, os.WNOHANG)[0]:
                    return
                time.sleep(0.001)
        except OSError:
            pass  # it is gone


def _fork(plan: "SearchPlan", files: "Sequence[Any]", search: "Callable[..., object]") -> "tuple[int, int]":
    """Start the search in a child; return (pid, descriptor of its output)."""
    read_end, write_end = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid:
        os.close(write_end)
        os.set_blocking(read_end, False)
        return pid, read_end
    status = 1
    try:
        die_with(parent)
        os.dup2(write_end, 3)  # nothing else of the log reader's stays open: neither its pipes nor its files
        os.closerange(4, 1 + max([int(name) for name in names("/proc/self/fd")] or [1024]))
        os.close(0)
        os.close(1)

        def send(frame: "dict[str, Any]") -> None:
            data = (json.dumps(frame) + "\n").encode("ascii")
            while data:
                data = data[os.write(3, data) :]

        search(plan, files, send)
        status = 0
    finally:  # a forked process must never go back into its parent's code
        os._exit(status)
    return 0, 0
