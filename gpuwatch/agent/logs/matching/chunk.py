"""A chunk of complete lines of one file, and the end of the previous chunk."""

import re
from functools import lru_cache
from itertools import islice

from ...masking.secret_phrases import masked_lines
from ..lines.normalise import last_message, messages
from ..lines.prefixes import differ
from ..lines.splitter import MAX_LINE, line_text, scrubbed, unmasked_text
from ..lines.timestamps import EARLY, local_day, may_have_time, time_of
from .long_records import LongRecords

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Iterator

    from ..lines.prefixes import Speaker
    from ..records.open_record import OpenRecord

PAST_BYTES = 16 * 1024
"""Bytes of the previous chunk that are kept, for context and conditions."""
AFTER_BYTES = MAX_LINE // 4
"""Bytes before the cut of a too long line in which no phrase is searched: its pattern may need them."""
FEW_ABOVE = 8
"""Lines above a line that are split off together: its rules ask for them one after another."""
MAX_TRACEBACK = 30
SHORT_TRACEBACK = 12
"""Number of lines above a line that are examined before a traceback counts as long."""
CACHED_LINES = 256
"""Cached lines, because findings often share their surroundings."""

_TRACEBACK = b"Traceback (most recent call last)"
_END = re.compile(rb"[\r\n]")
_CONTROLS = bytes(c for c in range(32) if c not in (9, 10, 13)) + b"\x7f"
"""Characters that are dropped before a line is searched."""
_ROW = re.compile(r"\s*(time|host|rank|exitcode|error_file|traceback)\s*: (.*)")
_ENTRY = re.compile(r"\s*\[(\d{1,6})\]:\s*$")
"""Entry number in torch's failure table: the order of the local ranks, whichever failed first."""
_ROOT_CAUSE = re.compile(r"\s*Root Cause\b")
"""Heading of the entry that failed first."""
_RANKS = re.compile(r"(?P<rank>\d{1,6}) \(local_rank: (?P<local_rank>\d{1,4})\)")
_RAISED = re.compile(
    r"[A-Za-z_][\w.]{2,}(?:Error|Exception|Interrupt|Exit|Warning|Closed\w*|Timeout)\b"
    r"|(?:[A-Za-z_]\w*\.){0,8}[A-Z][^\Wa-z]*[a-z]\w*(?::|$)"
)


@lru_cache(maxsize=CACHED_LINES)
def _time_of(line: bytes, arrived: float) -> "float | None":
    return time_of(unmasked_text(line[:MAX_LINE]), arrived) if may_have_time(line) else None


_local_day = lru_cache(maxsize=CACHED_LINES)(local_day)


class Chunk(object):
    """Complete lines of a file as bytes, in which lines are found without splitting all of them.

    `arrived` (unix seconds) is when the bytes were read; `backlog`: they were written before the file was
    followed.
    """

    def __init__(
        self,
        raw: bytes,
        base: int,
        past: bytes,
        arrived: float = 0.0,
        backlog: bool = False,
        opened: "OpenRecord | None" = None,
    ) -> None:
        """Create the chunk; `opened`: the long record inside of which it begins."""
        self.clean = scrubbed(raw, opened is not None and opened.in_list)
        self._records = LongRecords(self.clean, opened)
        self._raw = raw
        self._base = base
        self._past = past
        self._lines_above: tuple[int, int, list[bytes]] = (-1, 0, [])
        """Start of a line, the number of lines asked for above it, and these."""
        self._cursor = (0, 0)
        self._first: dict[bytes, int] = {}
        """Text -> where it first occurs."""
        self._is_plain: bool | None = None
        self.arrived = arrived
        self.backlog = backlog

    def line_around(self, at: int) -> "tuple[int, int]":
        """Return (start, end without line end) of the line that contains byte `at`.

        For a line too long to search as one, the part near that byte.
        """
        clean = self.clean
        low = max(0, at - MAX_LINE)
        start = clean.rfind(b"\n", low, at) + 1
        start = clean.rfind(b"\r", max(low, start), at) + 1 or start
        end = clean.find(b"\n", at, at + MAX_LINE)
        end = end if end >= 0 else min(len(clean), at + MAX_LINE)
        other = clean.find(b"\r", at, end)
        end = other if other >= 0 else end
        if (low and not start) or (end - start >= MAX_LINE and at - start >= MAX_LINE - AFTER_BYTES):
            start = clean.find(b" ", at - AFTER_BYTES, at) + 1 or at
        return start, end

    def is_whole(self, start: int, end: int) -> bool:
        """Return True if a span is a whole line, not a part of one."""
        clean = self.clean
        return clean[max(0, start - 1) : start] in b"\r\n" and clean[end : end + 1] in b"\r\n"

    def text(self, start: int, end: int) -> str:
        """Return one line as text, at most `MAX_LINE` bytes of it."""
        return line_text(self.clean[start : min(end, start + MAX_LINE)])

    def span(self, at: int) -> "tuple[int, int, int]":
        """Return (start, end, place up to which phrases are searched) of the line around `at`.

        Of a long one it is the part near `at`.
        """
        part = self._records.part(at)
        if part is not None:
            return part
        start, end = self.line_around(at)
        return start, end, end if end - start < MAX_LINE else start + MAX_LINE - AFTER_BYTES

    def searched(self, start: int, end: int) -> bytes:
        """Return the line to search for a span; of a part of a long record, a record with that part."""
        return self._records.line(start, end) or self.clean[start : min(end, start + MAX_LINE)]

    def open_record(self, at: int) -> "OpenRecord | None":
        """Return the long record that is unfinished at byte `at`, near the end; None: none is."""
        return self._records.open_at(at)

    def offset_of(self, start: int) -> int:
        """Return the file offset of the line at `start`; cheap if called in ascending order."""
        if len(self.clean) == len(self._raw):
            return self._base + start
        at, raw = self._cursor
        if start < at:
            at, raw = 0, 0
        ends = self.clean.count(b"\n", at, start) + self.clean.count(b"\r", at, start)
        for _ in range(ends):
            found = _END.search(self._raw, raw)
            raw = found.end() if found else raw
        self._cursor = (start, raw)
        return self._base + raw

    def above(self, start: int, most: int) -> "list[bytes]":
        """Return up to `most` non-blank lines before the line at `start`, in order.

        `start` may be inside of a line too long to search as one.
        """
        if most <= 0:
            return []
        at, count, lines = self._lines_above
        if at != start or count < most:
            count = max(most, FEW_ABOVE)
            lines = self._split_above(start, count)
            self._lines_above = start, count, lines
        return lines[-most:]

    def _split_above(self, start: int, most: int) -> "list[bytes]":
        size = 128 * most  # most lines are shorter
        while True:
            before = self.clean[max(0, start - size) : start]
            whole = start <= size
            if whole and len(before) < size:
                before = self._past[len(before) - size :] + before
                whole = len(before) < size
            lines = _split(before)
            if not whole:
                del lines[0]  # may be cut
            if before[-1:] not in (b"\r", b"\n"):
                del lines[-1:]  # `start` is inside of a long line: this is its beginning
            last = list(islice((line for line in reversed(lines) if line.strip()), most))
            if len(last) >= most or whole or size >= PAST_BYTES:
                return last[::-1]
            size *= 4

    def _upwards(self, start: int, most: int) -> "Iterator[bytes]":
        """Yield at most `most` lines above `start`, nearest first; far ones are read only when reached."""
        near = self.above(start, SHORT_TRACEBACK)
        for line in reversed(near):
            yield line
        for line in reversed(self.above(start, most)[: -len(near) or None]):
            yield line

    def below(self, end: int, most: int) -> "list[bytes]":
        """Return up to `most` non-blank lines after the one that ends at `end`."""
        size = 2048
        while True:
            stretch = self.clean[end : end + size]
            lines = _split(stretch)[1:]
            if end + size < len(self.clean) and lines:
                lines.pop()  # may be cut
            lines = [line for line in lines if line.strip()]
            if len(lines) >= most or size > 16 * PAST_BYTES or end + size >= len(self.clean):
                return lines[:most]
            size *= 4

    def texts_below(self, end: int, most: int, by: "Speaker") -> "list[str]":
        """Return texts of at most `most` lines after the one that ends at `end`, of the same process.

        `by`: the writer of the line.
        """
        texts: list[str] = []
        for line in self.below(end, 2 * most) if end else self._from_start(2 * most):
            if len(texts) < most and not differ(messages(line)[0][0][1], by):
                texts.append(line_text(line))
        return texts

    def shown_around(self, start: int, line: str, message: str, by: "Speaker") -> "tuple[list[str], int]":
        """Return (lines to show, index of the line itself, the last one); secrets are masked.

        Above it is its traceback, if the line ends one, else the two lines before it.
        """
        above: list[str] = []
        if _RAISED.match(message):
            above = self._traceback(start, by)
        if not above:
            above = [line_text(line) for line in self.above(start, 2)]
        return masked_lines([*above, line]), len(above)

    def may_hold(self, texts: "tuple[bytes, ...]", end: int) -> bool:
        """Return False if no line before `end` can have one of these texts, also in the end of the past."""
        if self._is_plain is None:
            every = self._past + self.clean
            self._is_plain = b"\\u" not in every and len(every.translate(None, _CONTROLS)) == len(every)
        if not self._is_plain:
            return True
        for text in texts:
            first = self._first.get(text)
            if first is None:
                at = self.clean.find(text)
                first = self._first[text] = -1 if text in self._past else at if at >= 0 else len(self.clean)
            if first < end:
                return True
        return False

    def start_above(self, start: int) -> int:
        """Return the start of the line before the one at `start`."""
        return self.line_around(max(0, start - 1))[0]

    def failure_table(self, start: int) -> "tuple[dict[str, Any], str]":
        """Return (fields, time as text or "") from the rows above `start` in torch's failure table.

        The field `table_entry` is 0 for the root cause, else the entry's number, at least 1.
        """
        fields: dict[str, Any] = {}
        when = ""
        above = [last_message(line)[0] for line in self.above(start, 7)]
        while above:
            text = above.pop()
            found = _ROW.match(text)
            if found is None:
                entry = _ENTRY.match(text)
                if entry is not None:
                    is_first = bool(above) and _ROOT_CAUSE.match(above[-1]) is not None
                    fields["table_entry"] = 0 if is_first else max(1, int(entry.group(1)))
                break
            name, value = found.group(1), found.group(2)
            when = value if name == "time" else when
            if name == "rank":
                rank = _RANKS.match(value)
                fields.update({key: int(each) for key, each in rank.groupdict().items()} if rank else {})
        return fields, when

    def next_time(self, end: int) -> "float | None":
        """Return the first time (unix seconds) in the 40 lines after `end`, or None."""
        for line in self.below(end, 40):
            at = _time_of(line, self.arrived)
            if at is not None:
                return at
        return None

    def last_time(self, start: int) -> "float | None":
        """Return the nearest time (unix seconds) in the 40 lines before `start`, or None."""
        for line in reversed(self.above(start, 40)):
            at = _time_of(line, self.arrived)
            if at is not None:
                return at
        return None

    def later_time(self, start: int, end: int) -> "float | None":
        """Return the latest time (unix seconds) in the 40 lines before `start`; None: none.

        `start`, `end`: the offsets at which a line begins and ends. Lines of the same date as that line are
        left out, unless the hour of that line is before `EARLY`.
        """
        day, hour = local_day(self.clean[start:end]) or (None, b"")
        lines = self.above(start, 40)
        if day is not None and hour >= EARLY:
            lines = [line for line in lines if (_local_day(line) or (None,))[0] != day]
        times = [_time_of(line, self.arrived) for line in lines]
        return max((at for at in times if at is not None), default=None)

    def end_of_text(self) -> bytes:
        """Return the last bytes of the chunk, which the next chunk needs as context."""
        return (
            (self._past + self.clean)[-PAST_BYTES:]
            if len(self.clean) < PAST_BYTES
            else self.clean[-PAST_BYTES:]
        )

    def _from_start(self, most: int) -> "list[bytes]":
        lines = _split(self.clean[: 16 * PAST_BYTES])
        return [line for line in lines if line.strip()][:most]

    def _traceback(self, start: int, by: "Speaker") -> "list[str]":
        lines: list[str] = []
        if self.clean.rfind(_TRACEBACK, 0, start) < 0 and _TRACEBACK not in self._past:
            return lines
        for raw in self._upwards(start, 3 * MAX_TRACEBACK):
            text, who = last_message(raw)
            if differ(who, by):
                continue
            lines.append(line_text(raw))
            if text.startswith(_TRACEBACK.decode("ascii")):
                lines.reverse()
                if len(lines) > MAX_TRACEBACK:
                    lines = [*lines[:4], "  ...", *lines[4 - MAX_TRACEBACK + 1 :]]
                return lines
            if not text.startswith((" ", "\t")):
                break
        return []


def _split(data: bytes) -> "list[bytes]":
    """Return the lines of bytes; between a carriage return and a line feed is an empty one."""
    return (data.replace(b"\r", b"\n") if b"\r" in data else data).split(b"\n")
