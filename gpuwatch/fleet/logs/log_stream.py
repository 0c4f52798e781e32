"""Lines that were asked for of one node: a tail that grows, a page of a file, or what a search found."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from gpuwatch.wire import Lines, LogLine

KEPT_LINES = 20_000
"""Of a tail; what is older is read again from the node."""
KEPT_CHARACTERS = 8_000_000
"""Of the lines of a stream; the newest line is kept whatever it holds."""
KEPT_SEAMS = 1_000
RESUMED_BYTES = 64 * 1024
"""A last line that takes more (a bar with all its states) is not read again after a break."""


@dataclass(frozen=True, slots=True)
class Seam:
    """What happened to the file before the line at `index` (counted from the first line ever)."""

    index: int
    what: str


@dataclass
class LogStream:
    """The answer to one request, as far as it has come. The session makes it; `Fleet` fills it."""

    node: str
    file: str
    """Of a search: the file that the newest lines are from."""
    id: int
    lines: deque[LogLine] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    files: deque[str] = field(default_factory=lambda: deque(maxlen=KEPT_LINES))
    """Whose line each one is; filled for searches only."""
    came: int = 0
    """Lines ever, one that grew counted once; `came - len(lines)` have been let go."""
    size: int | None = None
    seams: deque[Seam] = field(default_factory=lambda: deque(maxlen=KEPT_SEAMS))
    """The newest ones."""
    seams_came: int = 0
    """Seams ever."""
    progress: float | None = None
    done: bool = False
    error: str | None = None
    version: int = 0
    kind: Literal["tail", "read", "search"] = "read"
    replaced: int = 0
    """How often the newest line was replaced: it had no end yet, or is a bar that runs."""
    broken: bool = False
    """A tail whose reader on the node is gone: it must be asked for again, from `resume`."""
    _resumed: bool = False
    _characters: int = 0
    """Of the lines that are kept."""

    def fail(self, why: str) -> None:
        """The agent refused, or the link is gone: nothing more will come."""
        self.done, self.error = True, why
        self.version += 1

    def resume(self) -> int | None:
        """From which offset to go on after a break; None: nothing has come yet.

        That of the last line, which may have grown meanwhile: it comes again and takes its own place. Not of
        a running bar, whose offset is that of its first state.
        """
        self.broken = False
        if not self.lines:
            return None
        last = self.lines[-1]
        self._resumed = last.end - last.offset <= RESUMED_BYTES
        return last.offset if self._resumed else last.end

    def take(self, frame: Lines) -> None:
        """Add what came; of a tail, a row with the offset of the one before it replaces that."""
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
        """Those that came after the first `taken` ones, as far as they are kept."""
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
        """Forget the oldest lines over the limit of characters."""
        while self._characters > KEPT_CHARACTERS and len(self.lines) > 1:
            self._characters -= len(self.lines.popleft().text)
            if self.files:
                self.files.popleft()

    def _grow(self, line: LogLine) -> None:
        if self._resumed:
            self._resumed = False
            if not self._goes_on(line):
                self._tear("made anew while nobody looked")
        torn = bool(self.seams) and self.seams[-1].index == self.came
        if self.lines and self.lines[-1].offset == line.offset and not torn:
            self._characters -= len(self.lines.pop().text)
            self.replaced += 1
        else:
            self.came += 1
        self._add(line)

    def _goes_on(self, line: LogLine) -> bool:
        """Whether this is the last line of before the break, or what has become of it."""
        if self.seams and self.seams[-1].index == self.came:
            return True  # what happened has been reported
        last = self.lines[-1]
        same = line.text.startswith(last.text) or _has_states(line) or _has_states(last)
        return line.offset == last.offset and same


def _has_states(line: LogLine) -> bool:
    """Whether the line takes more bytes than its text: a bar, of which only the last state is reported."""
    return line.end - line.offset > len(line.text.encode()) + 8
