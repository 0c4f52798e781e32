"""A search in files on the nodes: its hits so far, its progress, and its end."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from gpuwatch.fleet.logs.log_stream import KEPT_CHARACTERS, LogStream
from gpuwatch.rules.compiling.typed_pattern import TypedPattern
from gpuwatch.tui.logs.data.line_window import UNKNOWN
from gpuwatch.tui.model.session_protocol import Searcher
from gpuwatch.wire import LogLine

MAX_HITS = 20_000


@dataclass(frozen=True, order=True)
class Hit:
    """A line that matches a search. Ordered by time on our clock; lines without a time come first."""

    at: float
    node: str
    file: str
    offset: int
    line: LogLine = field(compare=False)


class LogSearch:
    """A search for one pattern on several nodes at once."""

    def __init__(
        self, asker: Searcher, pattern: str, nodes: Mapping[str, Sequence[str]], offsets: Mapping[str, float]
    ) -> None:
        """Start the search on every node.

        Args:
            asker: The session.
            pattern: A regular expression.
            nodes: Node -> its files; empty: all that are followed there.
            offsets: Node -> its clock minus ours.

        Raises:
            PatternError: The pattern is invalid, or its search may take too long.
        """
        self.pattern = TypedPattern(pattern)
        self.hits: list[Hit] = []
        self.version = 0
        self.cancelled = False
        self._asker = asker
        self._offsets = offsets
        ignore = self.pattern.ignore_case
        self._streams = [asker.search(n, pattern, files, ignore_case=ignore) for n, files in nodes.items()]
        self._taken = [0] * len(self._streams)
        self._versions = [-1] * len(self._streams)
        self._found = 0
        self._characters = 0
        """Number of characters in the hits' lines."""

    @property
    def running(self) -> bool:
        """True if any node still searches."""
        return not self.cancelled and any(not stream.done for stream in self._streams)

    @property
    def progress(self) -> float:
        """The progress from 0 to 1, over all nodes."""
        shares = [1.0 if stream.done else stream.progress or 0.0 for stream in self._streams]
        return sum(shares) / len(shares) if shares else 1.0

    @property
    def cut(self) -> bool:
        """True if there are more hits than are kept."""
        return self._found > len(self.hits)

    @property
    def nodes(self) -> int:
        """The number of nodes searched."""
        return len(self._streams)

    def errors(self) -> list[tuple[str, str]]:
        """Return (node, error) for each node that could not search."""
        return [(stream.node, stream.error) for stream in self._streams if stream.error]

    def pull(self) -> bool:
        """Add the hits received since the last call, by time; return True if anything is new."""
        versions = [stream.version for stream in self._streams]
        if versions == self._versions or self.cancelled:
            return False
        self._versions = versions
        for index, stream in enumerate(self._streams):
            self._take(index, stream)
            if stream.done:
                self._asker.drop(stream)
        self.version += 1
        return True

    def _take(self, index: int, stream: LogStream) -> None:
        new = min(stream.came - self._taken[index], len(stream.lines))
        self._taken[index] = stream.came
        start = len(stream.lines) - new
        offset = self._offsets.get(stream.node, 0.0)
        self._found += new
        for line, file in zip(
            islice(stream.lines, start, None), islice(stream.files, start, None), strict=True
        ):
            known = line.t if line.t is not None else line.arrived
            at = UNKNOWN if known is None else known - offset
            if len(self.hits) < MAX_HITS and self._characters < KEPT_CHARACTERS:
                self._characters += len(line.text)
                insort(self.hits, Hit(at, stream.node, file, line.offset, line))

    def cancel(self) -> None:
        """Stop the search on every node; the hits stay."""
        if not self.cancelled:
            self.cancelled = True
            for stream in self._streams:
                self._asker.drop(stream)
            self.version += 1
