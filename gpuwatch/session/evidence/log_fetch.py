"""Fetches log text from the nodes page by page, into a spool. Non-blocking."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.number_text import limit_text
from gpuwatch.session.evidence.log_parts import LogPart
from gpuwatch.session.evidence.spool import Spool, SpooledLog
from gpuwatch.session.line_queries import LineReads
from gpuwatch.wire import LogLine

ABOVE_LINES, BELOW_LINES = 100, 200
"""Lines above and below a line of evidence that are fetched."""
AT_LINES = 120
"""Lines above and below a point in time that are fetched."""
PAGE_LINES = 20_000
"""Lines per request for a whole log; the agent sends at most 256 KiB."""
MAX_OPEN = 4
"""Most unanswered requests to one node."""
MAX_ANSWER_S = 30.0
"""Seconds to wait for a page; it is requested `MAX_ATTEMPTS` times before its log is given up."""
MAX_ATTEMPTS = 3
MAX_SILENT = 3
"""Logs given up without an answer after which those of a node that never answered are all given up."""
MAX_NODE_BYTES = 4 << 30
"""Most bytes of text from one node, because the node itself states the sizes of its logs."""
MAX_NODE_S = 1800.0
"""Most seconds for fetching the logs of one node."""


class TextReads(LineReads, Protocol):
    """Interface of a session: requests for lines of node files, with `read_text`."""

    def read_text(self, node: str, file: str, offset: int, lines: int) -> LogStream:
        """Request lines from a byte offset on, without times, ranks and levels."""
        ...


@dataclass
class LogFetched:
    """One log and the state of its fetch."""

    part: LogPart
    spooled: SpooledLog
    over: bool = False
    trouble: str | None = None
    """Why it is incomplete."""
    _wanted: list[tuple[int | None, float | None]] = field(default_factory=list)
    _rows: dict[int, LogLine] = field(default_factory=dict)
    _stream: LogStream | None = None
    _asked_at: float = 0.0
    _attempts: int = 0
    has_answered: bool = False
    is_silent: bool = False
    """True if the log was given up because no answer came."""

    def __post_init__(self) -> None:
        part = self.part
        if not part.whole:
            self._wanted = [(offset, None) for offset in part.places]
            self._wanted += [(None, part.at)] if part.at is not None else []
        self.over = self.spooled.done or (part.whole and self.spooled.next >= part.size)

    @property
    def is_open(self) -> bool:
        """True while a page is outstanding."""
        return self._stream is not None

    @property
    def fetched_bytes(self) -> int:
        """Bytes fetched so far of a whole log."""
        return min(self.spooled.next, self.part.size) if self.part.whole else 0

    def ask(self, session: TextReads, now: float) -> None:
        """Request the next page of a whole log, or the lines around the next place."""
        node, file = self.part.node, self.part.file
        self._asked_at = now
        if self.part.whole:
            self._stream = session.read_text(node, file, self.spooled.next, PAGE_LINES)
            return
        offset, at = self._wanted[0]
        above, below = (AT_LINES, AT_LINES) if offset is None else (ABOVE_LINES, BELOW_LINES)
        self._stream = session.read_lines(node, file, offset=offset, time=at, before=above, after=below)

    def take(self, session: LineReads, spool: Spool, now: float) -> None:
        """Store the requested page, if it has arrived; if it is late or failed, retry or give up.

        Raises:
            OSError: the spool cannot be written.
        """
        stream = self._stream
        if stream is None:
            return
        if not stream.done:
            if now - self._asked_at > MAX_ANSWER_S:
                session.drop(stream)
                self._retry(f"no answer in {MAX_ANSWER_S:.0f} s")
            return
        self._stream, self.has_answered = None, True
        if stream.error is not None:
            self.give_up(stream.error)
        elif self.part.whole:
            self._take_page(stream, spool)
        else:
            self._rows.update((line.offset, line) for line in stream.lines)
            del self._wanted[0]
            if not self._wanted:
                spool.append(self.part, self.spooled, blocks_text(self.part, self._rows), 0, done=True)
                self._rows, self.over = {}, True
        session.drop(stream)

    def _take_page(self, stream: LogStream, spool: Spool) -> None:
        rows = [line for line in stream.lines if line.offset >= self.spooled.next]
        following = rows[-1].end if rows else self.spooled.next
        done = not rows or following >= self.part.size or following <= self.spooled.next
        text = "".join(f"{line.text}\n" for line in rows)
        spool.append(self.part, self.spooled, text, following, done=done)
        self._attempts, self.over = 0, done
        if done and following < self.part.size and not self.part.is_kernel:
            self.trouble = f"read up to byte {following:,} of {self.part.size:,}: no line ends after it"

    def drop(self, session: LineReads) -> None:
        """End the outstanding request."""
        if self._stream is not None:
            session.drop(self._stream)
            self._stream = None

    def _retry(self, why: str) -> None:
        self._attempts += 1
        self._stream = None
        if self._attempts >= MAX_ATTEMPTS:
            self.is_silent = True
            self.give_up(why)

    def give_up(self, why: str) -> None:
        """Mark the log as over, with what has arrived; `why` becomes its `trouble`."""
        self.trouble, self.over = why, True


class LogFetch:
    """Fetches a set of logs. Call `update` after every poll of the session until it is `over`."""

    def __init__(
        self,
        session: TextReads,
        parts: Sequence[LogPart],
        spool: Spool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the fetch of these parts of logs; nothing is requested yet.

        Raises:
            OSError: the spool cannot be written.
        """
        self._session = session
        self._spool = spool
        self._clock = clock
        self.logs = [LogFetched(part, spool.begin(part)) for part in parts]
        self._began: float | None = None
        self.bytes = sum(part.size for part in parts if part.whole)
        """Size of the whole logs in bytes; 0: only blocks are fetched."""

    @property
    def over(self) -> bool:
        """True if nothing more will arrive."""
        return all(log.over for log in self.logs)

    @property
    def done(self) -> int:
        """Number of logs that are complete or given up."""
        return sum(log.over for log in self.logs)

    @property
    def fetched_bytes(self) -> int:
        """Bytes fetched so far of the whole logs."""
        return sum(log.fetched_bytes for log in self.logs)

    def update(self) -> None:
        """Store the pages that have arrived, and request further ones.

        Raises:
            OSError: the spool cannot be written, as on a full disk.
        """
        now = self._clock()
        self._give_up_nodes(now)
        busy: dict[str, int] = {}
        for log in self.logs:
            if log.is_open:
                log.take(self._session, self._spool, now)
                busy[log.part.node] = busy.get(log.part.node, 0) + log.is_open
        for log in self.logs:
            if not log.over and not log.is_open and busy.get(log.part.node, 0) < MAX_OPEN:
                log.ask(self._session, now)
                busy[log.part.node] = busy.get(log.part.node, 0) + 1

    def _give_up_nodes(self, now: float) -> None:
        """Give up the logs of nodes that do not answer, send too much, or take too long."""
        self._began = now if self._began is None else self._began
        is_late = now - self._began > MAX_NODE_S
        logs: dict[str, list[LogFetched]] = {}
        for log in self.logs:
            logs.setdefault(log.part.node, []).append(log)
        for own in logs.values():
            why = f"not finished within {MAX_NODE_S / 60:.0f} min" if is_late else ""
            if sum(log.spooled.written for log in own) > MAX_NODE_BYTES:
                why = f"more than {limit_text(MAX_NODE_BYTES)} from this node"
            if sum(log.is_silent for log in own) >= MAX_SILENT and not any(log.has_answered for log in own):
                why = "the node does not answer"
            for log in own:
                if why and not log.over:
                    log.drop(self._session)
                    log.give_up(why)


def blocks_text(part: LogPart, rows: dict[int, LogLine]) -> str:
    """Return the fetched lines of a log as text in file order, with `>` before lines of evidence.

    A heading gives the offset where lines are left out.
    """
    lines: list[str] = []
    end: int | None = None
    for offset in sorted(rows):
        row = rows[offset]
        if end != offset:
            lines.append(f"--- {'record' if part.is_kernel else 'byte'} {offset:,} ---")
        end = row.end
        proof = any(row.offset <= place < max(row.end, row.offset + 1) for place in part.places)
        lines.append(f"{'>' if proof else ' '} {row.text}")
    return "".join(f"{line}\n" for line in lines)
