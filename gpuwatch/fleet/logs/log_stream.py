"""Log lines that were requested from one node: a live tail, a page of a file, or search hits."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from msgspec import Struct

from gpuwatch.wire import Lines, LogLine

StreamKind: TypeAlias = Literal["tail", "read", "search"]
KEPT_LINES = 20_000
"""Maximum number of lines kept of a tail; older ones are read from the node again."""
KEPT_CHARACTERS = 8_000_000
"""Maximum number of characters kept of a stream; the newest line is always kept."""
KEPT_SEAMS = 1_000
RESUMED_BYTES = 64 * 1024
"""A last line with more bytes (a progress bar with all its states) is not read again after a disconnect."""


class Seam(Struct, frozen=True):
    """A change of the file before the line at `index` (counted from the first line ever)."""

    index: int
    what: str
    """`rotated`, `truncated`, `made anew`."""


@dataclass
class LogStream:
    """The lines received for one request; the session creates the stream, and `Fleet` fills it."""

    node: str
    file: str
    """The file of the newest lines of a search."""
    id: int
    lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    files: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    """The file of each line; filled for searches only."""
    came: int = 0
    """Number of lines received; a line that grew counts once. `came - len(lines)` have been dropped."""
    size: int | None = None
    seams: deque[Seam] = field(default_factory=lambda: deque(maxlen=KEPT_SEAMS))
    """The newest seams."""
    seams_came: int = 0
    """Number of seams ever."""
    progress: float | None = None
    done: bool = False
    error: str | None = None
    version: int = 0
    kind: StreamKind = "read"
    replaced: int = 0
    """Number of times the newest line was replaced: it was incomplete, or is a running progress bar."""
    broken: bool = False
    """True for a tail whose reader on the node is gone: it must be requested again, from `resume`."""
    _resumed: bool = False
    _characters: int = 0
    """Number of characters in the kept lines."""

    def fail(self, why: str) -> None:
        """End the stream with the error `why`: the agent refused, or the link was lost."""
        self.done, self.error = True, why
        self.version += 1

    def resume(self) -> int | None:
        """Return the byte offset from which to continue after a disconnect; None: nothing was received yet.

        It is the offset of the last line, which may have grown meanwhile: the line is received again and
        replaces the old one. For a line of over `RESUMED_BYTES` (a progress bar, whose offset is that of its
        first state) it is the end of the line. `broken` becomes False.
        """
        self.broken = False
        if not self.lines:
            return None
        last = self.lines[-1]
        self._resumed = last.end - last.offset <= RESUMED_BYTES
        return last.offset if self._resumed else last.end

    def take(self, frame: Lines) -> None:
        """Add the received lines; in a tail, a line with the same offset as the last one replaces it."""
        if frame.seam is not None:
            self._tear(frame.seam)
        if self.kind == "tail":
            for line in frame.lines:
                self._grow(line)
        else:
            for line in frame.lines:
                self._add(line)
            self.came += len(frame.lines)
        if self.kind == "search":
            self.files.extend([frame.file] * len(frame.lines))
        self._let_go()
        self.file = frame.file or self.file
        self.size = self.size if frame.size is None else frame.size
        self.progress = self.progress if frame.progress is None else frame.progress
        self.version += 1
        if frame.again and self.kind == "tail":
            self.broken = True
            return
        self.done, self.error = frame.done, frame.error or self.error

    def new_seams(self, taken: int) -> list[Seam]:
        """Return the seams (changes of the file) after the first `taken` ones, as far as they are kept."""
        new = min(self.seams_came - taken, len(self.seams))
        return list(self.seams)[len(self.seams) - new :]

    def _tear(self, what: str) -> None:
        self.seams.append(Seam(self.came, what))
        self.seams_came += 1

    def _add(self, line: LogLine) -> None:
        if len(self.lines) == KEPT_LINES:
            self._characters -= len(self.lines[0].text)
        self.lines.append(line)
        self._characters += len(line.text)

    def _let_go(self) -> None:
        """Drop the oldest lines until at most `KEPT_CHARACTERS` characters or one line are left."""
        while self._characters > KEPT_CHARACTERS and len(self.lines) > 1:
            self._characters -= len(self.lines.popleft().text)
            if self.files:
                self.files.popleft()

    def _grow(self, line: LogLine) -> None:
        if self._resumed:
            self._resumed = False
            if not self._goes_on(line):
                self._tear("rewritten while disconnected")
        torn = bool(self.seams) and self.seams[-1].index == self.came
        if self.lines and self.lines[-1].offset == line.offset and not torn:
            self._characters -= len(self.lines.pop().text)
            self.replaced += 1
        else:
            self.came += 1
        self._add(line)

    def _goes_on(self, line: LogLine) -> bool:
        """Return True if a line is the last line from before a disconnect, or its continuation."""
        if self.seams and self.seams[-1].index == self.came:
            return True  # the change has been reported
        last = self.lines[-1]
        same = line.text.startswith(last.text) or _has_states(line) or _has_states(last)
        return line.offset == last.offset and same


def _has_states(line: LogLine) -> bool:
    """Return True if a line takes more bytes in the file than its text has.

    It is a progress bar then, of which only the last state is sent.
    """
    return line.end - line.offset > len(line.text.encode()) + 8
