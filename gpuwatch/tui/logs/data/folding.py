"""Decides which lines are folded into one row: tracebacks, and lines with the same message."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from math import isfinite
from typing import Literal, TypeAlias, TypeVar

from gpuwatch.wire import LogLine

Kind: TypeAlias = Literal["line", "trace", "same"]
K = TypeVar("K")
V = TypeVar("V")

_STAMP = re.compile(
    r"\d{4}-\d\d-\d\d[T ]?|\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?|0x[0-9a-fA-F]+|\[\d+\]|pid[ =:]\d+"
)
_NUMBERS = re.compile(r"0x[0-9a-fA-F]+|\d+(?:[.,:]\d+)*")
_CODES = re.compile(
    r"(?i)\b(?:xid(?: \([^)]{0,60}\))?|exit ?code|exit status|signal|errno|error|err|status|code|rc)"
    r"[ :=(]{0,4}(-?\d{1,6})\b"
)
"""Matches codes that identify an event: lines with different codes are not folded."""
_CODE_WORDS = ("xid", "exit", "signal", "err", "status", "code", "rc")
"""A line with a match of `_CODES` has one of these: they are faster to look for."""
_STEP = re.compile(
    r"(?i)(?:\b|_)(?:step|iter|iteration|epoch|batch|update)s?[ :=#\[(]{1,4}(\d{1,12})\b"
    r"|\| {0,4}(\d{1,12})/\d{1,12} \["
)
"""Matches the step in a progress line or a progress bar: lines of different steps are not folded."""
_FAULTY_GPU = re.compile(r"(?i)\bgpu[ :#]{0,2}(\d{1,4})\b(?=.{0,80}(?:error|uncorrect|fail|lost|fell off))")
"""Matches the GPU index in a line about a fault."""
_RANK_MARK = re.compile(
    r"\s{0,8}(?:\[rank(\d{1,7})\]|\[\d{1,7},(\d{1,7})\]<|\(?rank (\d{1,7})\)|(\d{1,7}): )"
)
"""Matches the rank in front of a line, as torchrun, mpirun and srun write it."""
TRACE = "Traceback (most recent call last)"
"""The first line of a Python traceback."""
_CHAINED = ("During handling of the above exception", "The above exception was the direct cause")
_FRAME = re.compile(r"frame #\d+:")
TOGETHER_S, SPREAD_S = 1.0, 10.0
"""Ranks that log the same step are folded if each follows another within the first many seconds.

All of them follow the first rank within the second many. Failures follow one another for minutes.
"""
TRICKLE_S = 60.0
"""The same error of another rank is folded if the last one is at most this many seconds old."""
MAX_SHARED = 4096
"""Number of the newest messages, and of messages at a step, that lines of other ranks may join."""
MAX_RESUMED_ROWS = 256
"""Number of the newest rows of a continued list that lines of further ranks may join."""
_MAX_LENGTH_DIFFERENCE = 24
"""Lines whose lengths differ by more characters than this are not compared: they are different messages."""


def normal(line: LogLine, *, loose: bool = False) -> str:
    """Return a line's message with its changing parts replaced by `#`, to compare it with others.

    In warnings and errors every number is replaced, but codes of errors are kept. In ordinary lines only
    times, addresses and pids are: a loss that decreases step by step is not a repeated line. `loose`: replace
    every number but steps in ordinary lines, to compare with another rank's line.
    """
    strict = not loose and _is_quiet(line)
    variable = _STAMP if strict else _NUMBERS
    message = variable.sub("#", line.text)
    if strict:
        return message
    lower = line.text.lower()
    codes = _CODES.findall(line.text) if any(word in lower for word in _CODE_WORDS) else ()
    gpus = _FAULTY_GPU.findall(line.text) if "gpu" in lower else ()
    steps = _STEP.findall(line.text) if line.level in (None, "info") else ()
    return "\0".join((message, *codes, *gpus, *("".join(step) for step in steps)))


@dataclass(slots=True)
class Fold:
    """A row: one line, or several lines from `first` to `last` folded into one (numbers of the feed)."""

    first: int
    last: int
    key: int
    """The displayed line: the newest of one rank, the first of several, a traceback's exception."""
    kind: Kind = "line"
    count: int = 1
    """Number of its lines; filtered lines between them do not count."""
    at: float = 0.0
    """Time when the first line was written (unix seconds)."""
    ranks: set[int] = field(default_factory=set)
    """The ranks that wrote the lines of the row."""
    fixed: bool = False
    """True if the user unfolded it: no more lines are added."""
    until: float = 0.0
    """Time when the last line was written (unix seconds)."""
    last_rank: int | None = None
    """The rank that wrote the last line."""
    first_rank: int | None = None
    members: list[int] = field(default_factory=list, compare=False)
    """The numbers of its lines if there are several: lines of other rows may be between them."""
    alarming: bool = False
    """True if one of its lines is a warning or an error, or a rule was known to match it when it was sent."""
    newest: dict[int, int] = field(default_factory=dict, compare=False)
    """Rank -> number of its newest line with this message, whatever its numbers, in this row or another."""
    whole: Fold | None = field(default=None, compare=False)
    """The folded row from which the user unfolded this one."""

    def lacks(self, rank: int) -> bool:
        """Return True if a rank has logged the message neither in this row nor after it."""
        return rank not in self.ranks and self.newest.get(rank, self.last) <= self.last


@dataclass(slots=True)
class _Trace:
    """An incomplete traceback of one rank."""

    row: Fold
    indent: int
    """The column where its text begins."""
    marked: str = ""
    """The rank in front of its first line; empty: none."""
    ended: bool = False
    """True after its exception was read; only an announced further one may follow."""
    chained: bool = False
    """True after a further exception was announced, until its traceback begins."""


class Folder:
    """Takes lines in order, and appends a row to a list or folds the line into an existing row."""

    def __init__(
        self, rows: list[Fold], *, folding: bool = True, across: bool = False, later: Folder | None = None
    ) -> None:
        """Create a folder without lines.

        Args:
            rows: The list to append to.
            folding: False: every line is a row.
            across: The lines of several files alternate, so that equal ones need not be adjacent.
            later: The folder of the lines after these.
        """
        self.rows = rows
        self.folding = folding
        self._across = across
        self._line: LogLine | None = None
        self._normal: str | None = None
        """The previous line, normalised."""
        self._loose = False
        """True if all numbers of the previous line were removed."""
        self._traces: dict[int | None, _Trace] = {}
        self._traced: int | None = None
        """The rank of the newest traceback."""
        self._loose_of: tuple[LogLine, str] | None = None
        """The line that was last normalised with all numbers removed, and the result."""
        self._alike: dict[tuple[str | None, str], Fold] = {}
        """Level and normalised text -> the newest row that several ranks may share."""
        self.newest: dict[str, dict[int, int]] = {} if later is None else later.newest
        """Message without numbers -> `Fold.newest` of its rows."""

    def continues(self, rank: int | None) -> bool:
        """Return True if a rank's traceback is open: its exception has not been read yet."""
        trace = self._traces.get(self._writer(rank))
        return trace is not None and not trace.ended

    def _writer(self, rank: int | None) -> int | None:
        """Return the rank whose traceback a line may continue.

        In one file, lines without a rank continue the traceback of any rank.
        """
        return self._traced if rank is None and not self._across else rank

    def resume(self, line: Callable[[int], LogLine]) -> None:
        """Continue after rows that the list already has: lines of further ranks can join the newest of them.

        `line` returns a line by its number.
        """
        for row in self.rows[-MAX_RESUMED_ROWS:]:
            if self._across and row.kind != "trace" and row.first_rank is not None and not row.fixed:
                first = line(row.first)
                self.newest[self._message(first)] = row.newest
                self._remember(first, row)

    def add(self, number: int, line: LogLine, rank: int | None, at: float) -> Fold:
        """Add the next line with its rank and time (unix seconds); return its row."""
        if self.folding and (found := self._fold(number, line, rank, at)) is not None:
            return found
        self._line, self._normal = line, None
        indent = line.text.find(TRACE) if self.folding else -1
        row = Fold(number, number, number, "line" if indent < 0 else "trace", at=at, until=at)
        row.first_rank = row.last_rank = rank
        row.alarming = not _is_quiet(line)
        if rank is not None:
            row.ranks.add(rank)
        self.rows.append(row)
        if indent >= 0:
            self._traces[rank], self._traced = _Trace(row, indent, _marked(line.text)), rank
        elif self._across and self.folding and rank is not None:
            self._remember(line, row)
            self._note_newest(number, line, rank, row)
        return row

    def _fold(self, number: int, line: LogLine, rank: int | None, at: float) -> Fold | None:
        """Add a line to an existing row and return the row; None if it needs a row of its own."""
        writer = self._writer(rank)
        trace = self._traces.get(writer)
        if trace is not None and not trace.row.fixed and not _is_of_another(trace, line.text):
            if _in_trace(trace, line.text):
                stands = bool(line.text.strip()) and not _FRAME.search(line.text)
                _extend(trace.row, number, rank, at, stands=stands)
                return trace.row
            del self._traces[writer]
        if self.rows and not self.rows[-1].fixed and self._again(line, rank, at):
            row, self._line = self.rows[-1], line
        elif (shared := self._shared_row(line, rank, at)) is not None:
            row = shared
        else:
            return None
        _extend(row, number, rank, at, stands=row.ranks <= {rank})
        if self._across and rank is not None:
            self._note_newest(number, line, rank, row)
        row.kind, row.alarming = "same", row.alarming or not _is_quiet(line)
        return row

    def _again(self, line: LogLine, rank: int | None, at: float) -> bool:
        """Return True if a line repeats the last row's message, from the same or another rank."""
        before, row = self._line, self.rows[-1]
        if before is None or row.kind == "trace":
            return False
        another = rank is not None and bool(row.ranks) and rank not in row.ranks
        quiet = line.level in (None, "info")
        if another and quiet and not isfinite(at):  # lines that follow each other by chance
            return False
        if before.text == line.text:
            return True
        if before.level != line.level or abs(len(before.text) - len(line.text)) > _MAX_LENGTH_DIFFERENCE:
            return False
        if another and quiet and not _is_together(at, row):
            return False
        if self._normal is None or self._loose != another:
            self._normal, self._loose = normal(before, loose=another), another
        return (self._loosely(line) if another else normal(line)) == self._normal

    def _shared_row(self, line: LogLine, rank: int | None, at: float) -> Fold | None:
        """Return the row in which other ranks have recently logged the same, anywhere; None if none has."""
        if not self._across or rank is None:
            return None
        row = self._alike.get((line.level, self._loosely(line)))
        if row is None or row.fixed or rank in row.ranks:
            return None
        quiet = _is_quiet(line) and not row.alarming
        together = _is_together(at, row) if quiet else at <= row.until + TRICKLE_S
        return row if together else None

    def _remember(self, line: LogLine, row: Fold) -> None:
        _keep_newest(self._alike, (line.level, self._loosely(line)), row)

    def _note_newest(self, number: int, line: LogLine, rank: int, row: Fold) -> None:
        message = self._message(line)
        row.newest = self.newest.get(message, row.newest)
        row.newest[rank] = max(number, row.newest.get(rank, number))
        _keep_newest(self.newest, message, row.newest)

    def _message(self, line: LogLine) -> str:
        return self._loosely(line).partition("\0")[0]

    def _loosely(self, line: LogLine) -> str:
        """Return `normal(line, loose=True)`, computed once for a line."""
        if self._loose_of is None or self._loose_of[0] is not line:
            self._loose_of = line, normal(line, loose=True)
        return self._loose_of[1]


def _keep_newest(entries: dict[K, V], key: K, value: V) -> None:
    """Make an entry the last one, and drop the first one beyond `MAX_SHARED`."""
    entries.pop(key, None)
    entries[key] = value
    if len(entries) > MAX_SHARED:
        del entries[next(iter(entries))]


def _is_quiet(line: LogLine) -> bool:
    """Return True for an ordinary line that no rule is known to match; a rule may be found later."""
    return line.level in (None, "info") and line.rule is None


def _is_together(at: float, row: Fold) -> bool:
    """Return True if a line was written together with those of a row; False if its time is unknown."""
    return isfinite(at) and at <= min(row.until + TOGETHER_S, row.at + SPREAD_S)


def _extend(row: Fold, number: int, rank: int | None, at: float, *, stands: bool) -> None:
    """Add one line to a row.

    Args:
        row: The row.
        number: The line's number.
        rank: Its rank.
        at: Its time.
        stands: True if it becomes the displayed line.
    """
    if not row.members:
        row.members.append(row.first)
    row.members.append(number)
    row.last, row.until, row.last_rank = number, at, rank
    row.key = number if stands else row.key
    row.count += 1
    if rank is not None:
        row.ranks.add(rank)


def _marked(text: str) -> str:
    found = _RANK_MARK.match(text)
    return "" if found is None else next(each for each in found.groups() if each)


def _is_of_another(trace: _Trace, text: str) -> bool:
    """Return True if the rank in front of a line is not that in front of the traceback."""
    return trace.marked != "" and _marked(text) not in ("", trace.marked)


def _in_trace(trace: _Trace, text: str) -> bool:
    """Return True if a line belongs to the traceback, which ends with its exception unless one is chained.

    The state of the traceback (`ended`, `chained`) is updated.
    """
    body = text[trace.indent :] if len(text) > trace.indent else text.strip()
    if not body.strip() or _FRAME.search(body):
        return True
    if body.startswith(_CHAINED):
        trace.chained, trace.ended = True, False
    elif trace.ended or (body.startswith(TRACE) and not trace.chained):
        return False
    elif body.startswith(TRACE):
        trace.chained = False
    else:
        trace.ended = not body.startswith(" ")
    return True
