"""A scanner with CPU limits: rules that exceed them are suspended, and lines that do are skipped."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.agent.logs.records.wanted_lines import MAX_INSIDE
from gpuwatch.agent.logs.scanning.scanner import LINE_ERRORS, Scanner
from gpuwatch.number_text import plural
from gpuwatch.rules.model.time_limit import ENDLESS, EndlessError, TimeLimit

SEARCH_S, PIECE_S, LINE_S = 3.0, 120.0, 1.0
"""CPU seconds for a search in a piece of 512 KiB (or between two), for the piece, and for a line.

The limit for a line applies to pieces that took longer.

The result of a scan must not depend on the load of the machine. 1.2 s were measured for a piece of dense text
on a busy machine, so `PIECE_S` is 100 times that. A search is limited to a window of 4,096 characters, and
takes milliseconds.
"""
MAX_SKIPPED = 16
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")


class TooManySkippedError(Exception):
    """Raised if more than `MAX_SKIPPED` lines of a part took too long."""


class BoundedScan:
    """Scans one part of a file; `skipped` has the byte ranges (begin, end) that were not searched."""

    def __init__(
        self, scanner: Scanner, ruleset: RuleSet, file: str, prepare: Callable[[], None] = lambda: None
    ) -> None:
        """Create the scan of a part. `prepare` is called before each piece, outside of the CPU limits."""
        self.skipped: list[tuple[int, int]] = []
        self._scanner = scanner
        self._ruleset = ruleset
        self._file = file
        self._limit = TimeLimit(ruleset)
        self._prepare = prepare
        self._failed: list[tuple[int, int]] = []
        """Byte ranges of lines that raised an error."""
        self._partly: list[tuple[int, int]] = []
        """Byte ranges of records of which some lines were not searched."""
        self._faults: dict[str, None] = {}
        """The distinct errors that lines raised, in order."""

    def feed(self, data: bytes, offset: int, arrived: float) -> None:
        """Scan bytes for findings and progress. `offset`: of the first byte.

        `arrived`: the time for undated lines.

        Raises:
            TooManySkippedError: too many lines were skipped; stop feeding this part.
        """
        if not data:
            return
        self._prepare()
        unfinished = self._scanner.unfinished
        try:
            self._scan(data, offset, arrived, SEARCH_S, PIECE_S)
        except EndlessError as error:
            self._suspend(error)
            self._feed_lines(unfinished + data, offset - len(unfinished), arrived, again=not error.rule)
        except LINE_ERRORS as error:
            self._faults[repr(error)] = None
            self._feed_lines(unfinished + data, offset - len(unfinished), arrived, again=False)

    def _feed_lines(self, data: bytes, offset: int, arrived: float, *, again: bool) -> None:
        """Scan each line of a piece separately, so that only lines that cannot be scanned are skipped."""
        self._scanner.rewind()
        for line in _LINE.finditer(data):
            self._feed_line(line.group(), offset + line.start(), arrived, again=again)

    def finish(self) -> None:
        """Report findings that still wait for more lines."""
        try:
            with self._limit.of(SEARCH_S, PIECE_S):
                self._scanner.end()
                self._scanner.progress()
            self._take_unsearched()
        except EndlessError as error:
            self._suspend(error)
            end = self._scanner.fed_to
            self.skipped.append((end - len(self._scanner.unfinished), end))
        except LINE_ERRORS as error:
            end = self._scanner.fed_to
            self._fail(end - len(self._scanner.unfinished), end, repr(error))

    def search_held(self) -> None:
        """Search lines that are held for later ones, before these belong to another part."""
        try:
            with self._limit.of(SEARCH_S, PIECE_S):
                self._scanner.search_held([])
        except EndlessError as error:
            self._suspend(error)
        self._take_unsearched()

    def _feed_line(self, line: bytes, offset: int, arrived: float, *, again: bool) -> None:
        """Scan one line, or skip it if that takes too long or raises an error.

        `again`: suspend a rule that takes too long, and scan the line once more.
        """
        try:
            self._scan(line, offset, arrived, LINE_S)
        except EndlessError as error:
            self._scanner.rewind()
            if again and error.rule:
                self._suspend(error)
                self._feed_line(line, offset, arrived, again=False)
                return
            self._skip(offset, offset + len(line))
        except LINE_ERRORS as error:
            self._scanner.rewind()
            self._fail(offset, offset + len(line), repr(error))

    def _skip(self, begin: int, end: int) -> None:
        self.skipped.append((begin, end))
        if len(self.skipped) >= MAX_SKIPPED:
            raise TooManySkippedError from None

    def _fail(self, begin: int, end: int, why: str) -> None:
        """Record the offsets of a line that raised an error, and the error's text `why`.

        The offsets are recorded without limit, of the texts at most MAX_SKIPPED different ones.
        """
        self._failed.append((begin, end))
        if len(self._faults) < MAX_SKIPPED:
            self._faults[why] = None

    def _scan(self, data: bytes, offset: int, arrived: float, seconds: float, in_all: float = 0.0) -> None:
        with self._limit.of(seconds, in_all):
            self._scanner.feed(data, offset, arrived, backlog=True)
            self._scanner.progress()
        self._take_unsearched()

    def _take_unsearched(self) -> None:
        for begin, end, why in self._scanner.take_failed():
            self._fail(begin, end, why)
        self._partly += self._scanner.take_partly_searched()

    def _suspend(self, error: EndlessError) -> None:
        if error.rule:
            self._ruleset.suspend(error.rule, ENDLESS.format(self._file), self._file)

    @property
    def trouble(self) -> str | None:
        """Text on what was not searched; None: everything was."""
        faults = ", ".join(list(self._faults)[:2])
        slow = _not_searched(self.skipped, "as that timed out")
        failed = _not_searched(self._failed, f"by an error in gpuwatch, please report it ({faults})")
        partly = _not_searched(
            self._partly, f"beyond {MAX_INSIDE:,} of its own lines with words of rules", "wholly "
        )
        return "; ".join((*slow, *failed, *partly)) or None


def _not_searched(lines: Sequence[tuple[int, int]], why: str, how: str = "") -> Iterator[str]:
    if lines:
        size = sum(end - begin for begin, end in lines)
        places = ", ".join(f"{begin} to {end}" for begin, end in lines[:3])
        yield f"{plural(len(lines), 'line')} ({size} bytes) not {how}searched, {why}: bytes {places}"
