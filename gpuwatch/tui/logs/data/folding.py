"""Which lines are folded into one row: tracebacks, and lines that say the same thing again."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from gpuwatch.wire import LogLine

Kind: TypeAlias = Literal["line", "trace", "same"]

_STAMP = re.compile(
    r"\d{4}-\d\d-\d\d[T ]?|\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?|0x[0-9a-fA-F]+|\[\d+\]|pid[ =:]\d+"
)
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+(?:[.,:]\d+)*")
_TRACE = "Traceback (most recent call last)"
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_FRAME = re.compile(r"frame #\d+:")
TOGETHER_S = 1.0
"""What ranks say of the same step stands so close together; failures trickle in for minutes."""
_OFTEN = 24
"""Lines that mean the same differ by a few digits in length, not by more."""


def normal(line: LogLine, *, loose: bool = False) -> str:
    """What a line says without what changes each time.

    Of warnings and errors every number is left out. Of ordinary lines only times, addresses and pids are: a
    loss that falls step by step is not the same line again. What another rank says (`loose`) is the same
    though its numbers differ.
    """
    strict = not loose and line.level in (None, "info") and line.rule is None
    variable = _STAMP if strict else _NUMBERS
    return variable.sub("#", line.text)


@dataclass(slots=True)
class Fold:
    """A row: the lines from `first` to `last`, which are counted by their feed's numbers."""

    first: int
    last: int
    key: int
    """The line that stands for it: the newest of equal ones, a traceback's exception."""
    kind: Kind = "line"
    count: int = 1
    """Lines in it; filtered ones between them do not count."""
    at: float = 0.0
    """When the first line was written."""
    ranks: set[int] = field(default_factory=set)
    """Who said it; kept for rows of several lines only."""
    fixed: bool = False
    """Unfolded by hand: takes no more lines in."""


class Folder:
    """Takes lines in order and appends rows to a list."""

    def __init__(self, rows: list[Fold], *, folding: bool = True) -> None:
        self.rows = rows
        self.folding = folding
        self._line: LogLine | None = None
        self._normal: str | None = None
        """The line before, normalised,"""
        self._loose = False
        """and whether without all its numbers."""
        self._indent = -1
        """Where the open traceback's text begins; -1: none is open."""
        self._ended = False
        """Its exception was told; only a chained one may follow,"""
        self._chained = False
        """of which the announcement was seen."""

    def add(self, number: int, line: LogLine, rank: int | None, at: float) -> None:
        """The next line, whose it is and when it was written."""
        if self.folding and self.rows and not self.rows[-1].fixed:
            if self._indent >= 0 and self._in_trace(line.text):
                self._extend(number, rank, told=bool(line.text.strip()) and not _FRAME.search(line.text))
                return
            if self._again(line, rank, at):
                self._extend(number, rank)
                self.rows[-1].kind = "same"
                self._line = line
                return
        self._line, self._normal = line, None
        self._indent = line.text.find(_TRACE)
        self._ended = self._chained = False
        kind: Kind = "trace" if self._indent >= 0 and self.folding else "line"
        self.rows.append(Fold(number, number, number, kind, at=at, ranks=set() if rank is None else {rank}))

    def _extend(self, number: int, rank: int | None, *, told: bool = True) -> None:
        row = self.rows[-1]
        row.last = number
        row.key = number if told else row.key
        row.count += 1
        if rank is not None:
            row.ranks.add(rank)

    def _again(self, line: LogLine, rank: int | None, at: float) -> bool:
        """Whether a line says what the row says: again, or as another rank."""
        before, row = self._line, self.rows[-1]
        if before is None or row.kind == "trace":
            return False
        if before.text == line.text:
            return True
        if before.level != line.level or abs(len(before.text) - len(line.text)) > _OFTEN:
            return False
        another = rank is not None and bool(row.ranks) and rank not in row.ranks
        if another and at > row.at + TOGETHER_S and line.level in (None, "info"):
            return False
        if self._normal is None or self._loose != another:
            self._normal, self._loose = normal(before, loose=another), another
        return normal(line, loose=another) == self._normal

    def _in_trace(self, text: str) -> bool:
        """Whether a line belongs to the open traceback, which its exception ends unless one is chained."""
        body = text[self._indent :] if len(text) > self._indent else text.strip()
        if not body.strip() or _FRAME.search(body):
            return True
        if body.startswith(_CHAINED):
            self._chained, self._ended = True, False
        elif self._ended or (body.startswith(_TRACE) and not self._chained):
            self._indent = -1
            return False
        elif body.startswith(_TRACE):
            self._chained = False
        else:
            self._ended = not body.startswith(" ")
        return True
