"""The loaded lines of one file: its growing end, or a window in it. Pages are requested from the node."""

from __future__ import annotations

from collections import deque
from itertools import islice

from gpuwatch.fleet.logs.log_stream import KEPT_LINES, LogStream
from gpuwatch.tui.logs.data.line_window import Dated, Window
from gpuwatch.tui.logs.data.sources import LogSource
from gpuwatch.tui.model.session_protocol import LineRequests

PAGE_LINES = 500
"""Lines that are read at once; fewer if many files are open."""
RATE_S = 5.0


class _Read:
    """A requested page: where its lines go in the buffer, and the request."""

    def __init__(
        self, stream: LogStream, where: str, time: float | None = None, offset: int | None = None
    ) -> None:
        self.stream = stream
        self.where = where
        self.time = time
        self.offset = offset


class Buffer(Window):
    """A window of a file that requests its lines from the node."""

    def __init__(
        self,
        source: LogSource,
        asker: LineRequests,
        *,
        kept: int = KEPT_LINES,
        page: int = PAGE_LINES,
        dated: Dated | None = None,
    ) -> None:
        super().__init__(kept, dated)
        self.source = source
        self.held = False
        """True if the user has scrolled back: the oldest lines must not be dropped."""
        self.error = ""
        self.target: int | None = None
        """Number of the requested line, once it is loaded."""
        self.size: int | None = None
        self._asker = asker
        self._page = page
        self._tail: LogStream | None = None
        self._joined = True
        """False while a page is loaded that the lines of the tail have not been compared with."""
        self._taken = 0
        self._replaced = 0
        self._seams_taken = 0
        self._read: _Read | None = None
        self._pace: deque[tuple[float, int]] = deque()

    @property
    def reading(self) -> str:
        """The page that is being read: `earlier`, `later`, `there`, `end` (the first one), or "" for none."""
        if self._read is None and self._tail is not None and not (self._tail.version or self.lines):
            return "end"
        return self._read.where if self._read else ""

    @property
    def waiting(self) -> int:
        """Number of lines received at the file's end and not loaded here."""
        return self._tail.came - self._taken if self._tail else 0

    def source_of(self, number: int) -> LogSource:  # noqa: ARG002 - a merged view has several
        """Return the source of a line: the buffer's only one."""
        return self.source

    def place(self, number: int) -> tuple[LogSource, int]:
        """Return the identity of a line among those of all files: its source and number."""
        return self.source, number

    def find(self, place: tuple[LogSource, int]) -> int | None:
        """Return the number of the line with this `place`; None if it is not loaded."""
        return place[1] if self.base <= place[1] < self.end else None

    def rate(self, now: float) -> float | None:
        """Return the lines per second over the last 5 s; None until 1 s was observed.

        `now`: monotonic seconds.
        """
        if self._tail is None or not self._tail.came:
            return None
        self._pace.append((now, self._tail.came))
        while len(self._pace) > 2 and self._pace[1][0] <= now - RATE_S:
            self._pace.popleft()
        (then, before), (last, came) = self._pace[0], self._pace[-1]
        return (came - before) / (last - then) if last - then >= 1.0 else None

    # ---- gestures

    def follow(self, lines: int = 200) -> None:
        """Load the last `lines` lines of the file, and follow it.

        If the end has been requested before, the lines received since are used, and `lines` has no effect.
        """
        self.held = False
        self._forget_read()
        if self._tail is None:
            self._open_tail(lines)
            self._joined, self.live = not self.lines, True
        elif not self.live:
            self.replace([])
            self._taken = self._tail.came - len(self._tail.lines)
            self._seams_taken = self._tail.seams_came
            self.live = True
            self._take_new()

    def read_until(self, at: float) -> None:
        """Load one page of lines up to a time of our clock (unix seconds), and none after it."""
        self._forget_read()
        self._ask("there", time=at + self.offset_s, before=self._page)
        if self._read is not None:
            self._read.time = None  # no view goes to a line of it

    def earlier(self) -> None:
        """Request the page before the loaded lines, unless one is being read or there is none.

        After the file was replaced or truncated (`torn`), nothing is requested.
        """
        if self._read or self.at_start or not self.lines or self.torn:
            return
        first = self.lines[0].offset
        if first == 0:
            self.at_start = True
            return
        self._ask("earlier", offset=first, before=self._page)

    def later(self) -> None:
        """Request the page after the loaded lines, unless one is being read or the end is loaded."""
        if self._read is None and not self.live and not self.at_end and self.lines:
            self._ask("later", offset=self.lines[-1].end, after=self._page)

    def go(self, *, offset: int | None = None, at: float | None = None) -> None:
        """Load the lines around a byte offset, or a time of our clock (unix seconds).

        `target` becomes the number of the line when it is loaded, at once if it already is.
        """
        self._forget_read()  # a page that is still on its way would take the place of what is gone to
        if offset is not None and (found := self.at_offset(offset)) is not None and not self.torn:
            self.target = found
        elif at is not None and self.covers(at):
            self.target = self.at_time(at)
        else:
            when = None if at is None else at + self.offset_s
            self._ask(
                "there",
                offset=offset,
                time=when if offset is None else None,
                before=self._page,
                after=self._page,
            )

    def close(self) -> None:
        """Cancel all requests; nothing is received any more."""
        self._forget_read()
        if self._tail is not None:
            self._asker.drop(self._tail)
            self._tail = None

    def reopen(self, source: LogSource, page: int, *, ended: bool) -> None:
        """Use the loaded lines of a closed buffer again, without following the file.

        Args:
            source: The file as its node lists it now.
            page: Lines that are read at once.
            ended: True if the last loaded line is the file's last.
        """
        self.source, self._page = source, page
        self.held = self.live = False
        self.at_end, self._joined = ended, False

    # ---- what comes

    def pull(self, *, frozen: bool = False) -> None:
        """Process what was received; with `frozen`, only the pages that were requested."""
        if self._read is not None and self._read.stream.done:
            self._take_page(self._read)
        if frozen:
            return
        if self._tail is None:
            self._follow_from_end()
            return
        if self._tail.error and not self.lines:
            self.error = self._tail.error
        elif not self._tail.error and self._read is None and self.lines:
            self.error = "" if self.live else self.error
        self.size = self._tail.size if self._tail.size is not None else self.size
        if self.live and (self._tail.came > self._taken or self._tail.replaced != self._replaced):
            self._take_new()
        elif not self.live and self.at_end and self._read is None and self._tail.lines:
            self._meet_tail(reached_end=True)  # a page that was read at a time reached the end
            self.at_end = self.live  # else lines between are not loaded: `later` reads them

    def _follow_from_end(self) -> None:
        """Receive what is written after a page that has reached the end: the incident goes on."""
        if self.at_end and self.lines and self._read is None and not self.torn:
            self._open_tail(self._page)

    def _open_tail(self, lines: int) -> None:
        self._tail = self._asker.tail(self.source.node, self.source.file, lines)
        self._taken = self._seams_taken = 0

    def _take_new(self) -> None:
        stream = self._tail
        if stream is None or self._continues_page():
            return
        new = stream.came - self._taken
        if new > len(stream.lines) and self.lines:  # more came than the stream keeps: what is here is old
            if self.held:
                self.live = False
                return
            self.replace([])
            self.live = True
        new = min(new, len(stream.lines))
        self._renew_last(stream, new)
        first = stream.came - new
        lines = list(islice(stream.lines, len(stream.lines) - new, None))
        for seam in stream.new_seams(self._seams_taken):
            if seam.index >= first and (seam.index > 0 or self.lines):
                self.seams[self.end + seam.index - first] = seam.what
        self._seams_taken = stream.seams_came
        self._taken = stream.came
        if self.lines and lines and lines[0].offset == self.lines[-1].offset and self.end not in self.seams:
            self.drop_last()  # it had no line end yet
        self.append(lines)
        self.at_start = self.at_start or (bool(self.lines) and self.lines[0].offset == 0)
        if self.overfull:
            if self.held:
                self.live = False
            else:
                self.let_go()

    def _continues_page(self) -> bool:
        """Return True if the first lines of the tail continue the loaded page, else drop that page.

        This is checked once; later calls return False.
        """
        if self._joined:
            return False
        self._joined, self.live = True, False
        self._meet_tail(reached_end=False)
        joined = self.live
        if not joined:
            self.replace([])
        self.live = True
        return joined

    def _renew_last(self, stream: LogStream, new: int) -> None:
        """Update the last loaded line, which may have grown before the `new` ones came."""
        if stream.replaced == self._replaced:
            return
        self._replaced = stream.replaced
        if self.lines and len(stream.lines) > new:
            line = stream.lines[-new - 1]
            if line.offset == self.lines[-1].offset and line != self.lines[-1]:
                self.drop_last()
                self.append([line])

    def _ask(
        self,
        where: str,
        *,
        offset: int | None = None,
        time: float | None = None,
        before: int = 0,
        after: int = 0,
    ) -> None:
        stream = self._asker.read_lines(
            self.source.node, self.source.file, offset=offset, time=time, before=before, after=after
        )
        self._read = _Read(stream, where, time, offset)

    def _forget_read(self) -> None:
        if self._read is not None:
            self._asker.drop(self._read.stream)
            self._read = None

    def _take_page(self, read: _Read) -> None:
        self._read = None
        stream, lines = read.stream, list(read.stream.lines)
        self._asker.drop(stream)
        self.error = stream.error or ""
        self.size = stream.size if stream.size is not None else self.size
        if stream.error:
            self.at_start = self.at_start or read.where == "earlier"
            self.at_end = self.at_end or read.where == "later"
        elif read.where == "earlier":
            self.put_before(lines)
        elif read.where == "later":
            self.append(lines)
            self._meet_tail(reached_end=not lines or stream.size == lines[-1].end)
            if self.overfull:
                self.let_go()
        else:
            self.replace(lines)
            self.at_start = not lines or lines[0].offset == 0
            self._meet_tail(reached_end=bool(lines) and stream.size == lines[-1].end)
            self._aim(read)

    def _aim(self, read: _Read) -> None:
        if not self.lines:
            return
        if read.offset is not None:
            found = self.at_offset(read.offset)
            self.target = self.end - 1 if found is None else found
        elif read.time is not None:
            self.target = self.at_time(read.time - self.offset_s)

    def _meet_tail(self, *, reached_end: bool) -> None:
        """Follow the file again if the loaded pages have reached the lines received at its end."""
        stream, here = self._tail, self.lines[-1].end if self.lines else None
        if stream is None or here is None or not stream.lines:
            self.at_end = reached_end
            return
        newer = [index for index, line in enumerate(stream.lines) if line.offset >= here]
        if stream.lines[0].offset <= here or (newer and newer[0] > 0):
            self.append(islice(stream.lines, newer[0] if newer else len(stream.lines), None))
            self._taken, self._seams_taken, self.live = stream.came, stream.seams_came, True
