"""Requests lines of node files: those below unresolved errors, and the last lines of waiting ranks.

The lines below an error, and the end of its file, show what followed the error. The last lines of a rank that
took no part in a collective that timed out show what the rank did last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.error_outcome.by_lines.answered_lines import (
    END,
    Place,
    around_place,
    end_lines,
    place_of,
)
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.link.stream.limits import TokenBucket
from gpuwatch.runs.files.excerpts.around import BELOW_BYTES
from gpuwatch.wire import LogFile

ABOVE_LINES, BELOW_LINES, LAST_LINES = 200, 1000, 60
"""Lines per request: above an error, below it, and at the end of a file.

At 80 bytes a line, that is as much as `scan` reads.
"""
PER_NODE_S, BURST = 0.1, 40.0
"""Requests per second to one node: average rate, and burst size."""
MAX_OPEN = 4
"""Most unanswered requests to one node."""
MAX_REQUEST_S = 20.0
"""Seconds after which a request is given up."""
FIRST_AGAIN_S, LAST_AGAIN_S = 15.0, 600.0
"""Seconds between two requests about one error while its file grows: first and longest interval.

The interval doubles each time.
"""


class LineReads(Protocol):
    """Interface of a session: requests for lines of node files."""

    def read_lines(
        self,
        node: str,
        file: str,
        *,
        offset: int | None = None,
        time: float | None = None,
        before: int = 0,
        after: int = 0,
    ) -> LogStream:
        """Request lines around a byte offset, a time or the end of a file.

        At most `before` lines above that place and `after` below it.
        """
        ...

    def drop(self, stream: LogStream) -> None:
        """Cancel a request."""
        ...


class NodeFileReads(LineReads, Protocol):
    """`LineReads` with the fleet."""

    @property
    def fleet(self) -> Fleet:
        """The nodes and their log files."""
        ...


@dataclass
class _Question:
    """The requests about one error: lines around it and, in a long file, the last lines."""

    place: Place
    text: str
    around: list[LogStream]
    end: LogStream | None
    at: float
    """Monotonic seconds."""

    @property
    def streams(self) -> list[LogStream]:
        """The streams of the lines requested around the error and, if requested, at the end of its file."""
        return self.around if self.end is None else [*self.around, self.end]

    @property
    def over(self) -> bool:
        """True if all requests about the error are answered."""
        return all(stream.done for stream in self.streams)


@dataclass
class _Asked:
    """When the lines of an error were last requested, and when they may be requested again."""

    at: float
    size: int
    """Size of the error's file (bytes) at the last request."""
    pause_s: float = FIRST_AGAIN_S


class LineQueries:
    """Queries what followed each unsettled error of the alert book, and what silent ranks last logged.

    Call `update` after every poll.
    """

    def __init__(
        self,
        session: NodeFileReads,
        book: Callable[[], AlertBook],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the queries for log lines around errors; nothing is requested from the nodes yet.

        Args:
            session: Sends the requests.
            book: Returns the current alert book, which names the errors and stores the answers.
            clock: Monotonic seconds.
        """
        self._session = session
        self._book = book
        self._clock = clock
        self._open: dict[Place, _Question] = {}
        self._asked: dict[tuple[str, str, int], _Asked] = {}
        """(node, file, offset of an error's first line) -> when its lines were requested."""
        self._silent: dict[Place, str] = {}
        """End of the log of a rank that took no part -> text of the request, as of the last book."""
        self._silent_version = -1
        self._budgets: dict[str, TokenBucket] = {}
        self.waiting = False
        """True while requests are open, or postponed because their node has `MAX_OPEN` open ones."""

    def update(self) -> None:
        """Process the answers, and request lines for errors that are new or whose file has grown.

        Does not block.
        """
        now, book = self._clock(), self._book()
        for question in list(self._open.values()):
            self._take(question, book, now)
        if book.version != self._silent_version:
            self._silent, self._silent_version = dict.fromkeys(silent_ranks_ends(book), ""), book.version
        placed = ((place_of(alert), alert) for alert in book.unsettled)
        wanted = {place: alert.proof[0].text for place, alert in placed if place is not None} | self._silent
        self._forget(wanted)
        self.waiting = bool(self._open)
        sizes = self._sizes({place.node for place in wanted})
        for place, text in wanted.items():
            size = sizes.get((place.node, place.file))
            if size is not None and self._is_due(place, size, now):
                self.waiting |= self._ask(place, text, size, now)

    def _take(self, question: _Question, book: AlertBook, now: float) -> None:
        if not question.over and now < question.at + MAX_REQUEST_S:
            return
        del self._open[question.place]
        if not question.over or any(stream.error is not None for stream in question.streams):
            for stream in question.streams:
                self._session.drop(stream)
            return
        rows = [row for stream in question.around for row in stream.lines]
        last = () if question.end is None else question.end.lines
        size = question.streams[-1].size or 0
        at_end = question.place.first == END
        place, text = question.place, question.text
        around = end_lines(last) if at_end else around_place(place, text, rows, last, size)
        if around is not None:
            book.keep_lines(question.place, around)

    def _forget(self, wanted: Iterable[Place]) -> None:
        names = {place[:3] for place in wanted} | {place[:3] for place in self._open}
        if len(self._asked) > 2 * len(names) + 100:
            self._asked = {name: asked for name, asked in self._asked.items() if name in names}

    def _sizes(self, nodes: Iterable[str]) -> dict[tuple[str, str], int]:
        """Return (node, path) -> size in bytes of the files that connected nodes read."""
        known = self._session.fleet.nodes
        return {
            (name, file.path): file.size or 0
            for name in nodes
            if name in known and known[name].link.phase == "live"
            for file in known[name].logs
            if is_readable(file)
        }

    def _is_due(self, place: Place, size: int, now: float) -> bool:
        if place in self._open:
            return False
        asked = self._asked.get(place[:3])
        return asked is None or (size > asked.size and now >= asked.at + asked.pause_s)

    def _ask(self, place: Place, text: str, size: int, now: float) -> bool:
        """Request the lines of a place; return False if the node's budget is used up.

        Also return True if the node has `MAX_OPEN` open requests, so that nothing is sent.
        """
        if sum(place.node == each.node for each in self._open) >= MAX_OPEN:
            return True
        node, file, first, last = place
        long = first == END or size - last > BELOW_BYTES
        budget = self._budgets.setdefault(node, TokenBucket(PER_NODE_S, BURST))
        if not budget.spend(1.0 + (last > first) + long, now):
            return False
        read = self._session.read_lines
        around = []
        if first != END:
            around.append(read(node, file, offset=first, before=ABOVE_LINES, after=BELOW_LINES))
        if last > first:
            around.append(read(node, file, offset=last, after=BELOW_LINES))
        end = read(node, file, before=LAST_LINES) if long else None
        self._open[place] = _Question(place, text, around, end, now)
        earlier = self._asked.get(place[:3])
        pause_s = FIRST_AGAIN_S if earlier is None else min(LAST_AGAIN_S, 2 * earlier.pause_s)
        self._asked[place[:3]] = _Asked(now, size, pause_s)
        return True


def silent_ranks_ends(book: AlertBook) -> Iterator[Place]:
    """Yield the ends of the logs of ranks that an incident names because they alone took no part."""
    named = {
        (incident.job, incident.rank)
        for incident in book.incidents
        if incident.cause is None and incident.rank is not None and not incident.over
    }
    for place in book.places.ranks if named else ():
        if (place.job, place.rank) in named:
            for file in place.logs:
                yield Place(place.node, file, END, END)


def is_readable(file: LogFile) -> bool:
    """Return True if the node follows the file and it is not the kernel log."""
    return file.state == "following" and file.source != "kernel"
