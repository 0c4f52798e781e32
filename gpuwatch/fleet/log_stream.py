"""Lines that were asked for of one node: a tail that grows, a page of a file, or what a search found."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Literal

from gpuwatch.wire import Lines, LogLine

KEPT_LINES = 20_000
"""Of a tail; what is older is read again from the node."""


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
    """Lines ever; `came - len(lines)` have been let go."""
    size: int | None = None
    seams: list[Seam] = field(default_factory=list)
    progress: float | None = None
    done: bool = False
    error: str | None = None
    version: int = 0
    kind: Literal["tail", "read", "search"] = "read"

    def fail(self, why: str) -> None:
        """The agent refused, or the link is gone: nothing more will come."""
        self.done, self.error = True, why
        self.version += 1

    def take(self, frame: Lines) -> None:
        """Add what came."""
        if frame.seam is not None:
            self.seams.append(Seam(self.came, frame.seam))
        self.lines.extend(frame.lines)
        if self.kind == "search":
            self.files.extend([frame.file] * len(frame.lines))
        self.came += len(frame.lines)
        self.file = frame.file or self.file
        self.size = self.size if frame.size is None else frame.size
        self.progress = self.progress if frame.progress is None else frame.progress
        self.done, self.error = frame.done, frame.error or self.error
        self.version += 1
