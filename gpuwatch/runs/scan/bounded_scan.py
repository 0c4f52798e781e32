"""A scanner with CPU limits: rules that take too long are suspended, lines that do are skipped."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuwatch.agent.logs.matching.ruleset import RuleSet
from gpuwatch.agent.logs.scanning.scanner import Scanner
from gpuwatch.rules.model.time_limit import ENDLESS, EndlessError, TimeLimit

SEARCH_S, PIECE_S, LINE_S = 3.0, 120.0, 1.0
"""CPU seconds for one search in a piece of 512 KiB or between two, for the whole piece, and for one line of a
piece that took longer.

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
        """`prepare`: called before each piece, outside of the limits."""
        self.skipped: list[tuple[int, int]] = []
        self._scanner = scanner
        self._ruleset = ruleset
        self._file = file
        self._limit = TimeLimit(ruleset)
        self._prepare = prepare

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
            data, offset = unfinished + data, offset - len(unfinished)
            self._scanner.rewind()
            for line in _LINE.finditer(data):
                self._feed_line(line.group(), offset + line.start(), arrived, again=not error.rule)

    def finish(self) -> None:
        """Report findings that wait for more lines."""
        try:
            with self._limit.of(SEARCH_S, PIECE_S):
                self._scanner.end()
                self._scanner.progress()
        except EndlessError as error:
            self._suspend(error)
            end = self._scanner.fed_to
            self.skipped.append((end - len(self._scanner.unfinished), end))

    def _feed_line(self, line: bytes, offset: int, arrived: float, *, again: bool) -> None:
        """Scan one line; if a rule takes too long for the first time, suspend it and scan the line again."""
        try:
            self._scan(line, offset, arrived, LINE_S)
        except EndlessError as error:
            self._scanner.rewind()
            if again and error.rule:
                self._suspend(error)
                self._feed_line(line, offset, arrived, again=False)
                return
            self.skipped.append((offset, offset + len(line)))
            if len(self.skipped) >= MAX_SKIPPED:
                raise TooManySkippedError from None

    def _scan(self, data: bytes, offset: int, arrived: float, seconds: float, in_all: float = 0.0) -> None:
        with self._limit.of(seconds, in_all):
            self._scanner.feed(data, offset, arrived, backlog=True)
            self._scanner.progress()

    def _suspend(self, error: EndlessError) -> None:
        if error.rule:
            self._ruleset.suspend(error.rule, ENDLESS.format(self._file), self._file)

    @property
    def trouble(self) -> str | None:
        """What was not searched, as text; None: everything was."""
        if not self.skipped:
            return None
        size = sum(end - begin for begin, end in self.skipped)
        places = ", ".join(f"{begin} to {end}" for begin, end in self.skipped[:3])
        return f"{len(self.skipped)} lines ({size} bytes) not searched, as that timed out: bytes {places}"
