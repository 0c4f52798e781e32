"""Splits a JSON document into its records, piece by piece; text that is no part of it stays as it is."""

from __future__ import annotations

import json
import re
from enum import Enum

from gpuwatch.agent.patterns.module_pattern import pattern_of

MAX_RECORD = 1 << 20
"""Largest record or string in bytes."""
MAX_DEPTH = 64
MAX_TOKEN = 16
"""Characters at the end of a piece of which a value may be the beginning: `Infinity`, an escape."""
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
OPENED_BY = {"]": "[", "}": "{"}
_TOKEN = pattern_of(
    r'[ \t\r]*(?:(?P<sign>[\n{}\[\],:])|(?P<text>"[^"\\\n]*(?:\\.[^"\\\n]*)*")|(?P<scalar>[\w.+-]{1,400}))'
)
_SCALAR = re.compile(r"-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|Infinity)|NaN|true|false|null")
_UNFINISHED = re.compile(r'[ \t\r]*(?:"[^"\\\n]*(?:\\.[^"\\\n]*)*\\?)?\Z')
_INDENT = re.compile(rb"(?<!\s)\s*[\r\n]\s*")
_STEP_AT_END = re.compile(rb'"step"\s{0,4}:\s{0,4}\d')
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str)
"""Numbers stay text: only the form of a record is of interest."""


class Next(Enum):
    """What JSON allows next at a position in a document."""

    VALUE = "value"
    FIRST = "first entry of a container, or its end"
    KEY = "key"
    COLON = "colon"
    MORE = "comma, or the end of a container"


class RecordSplitter:
    """Splits a document into records incrementally; buffers at most one record.

    From the first byte on that no JSON document has in its place, the text is returned unchanged: the lines
    of a log that begins like a document.
    """

    def __init__(self, total_steps: int | None = None) -> None:
        """Create the splitter; `total_steps`, if known, is added to each record with a step."""
        self.is_broken = False
        """True if the text is, from some byte on, no part of a document."""
        self._total = None if total_steps is None else b', "max_steps": %d}' % total_steps
        self._held = b""
        self._has_begun = False
        self._stack = ""
        """The open brackets outside of records."""
        self._wants = Next.VALUE
        self._is_line_over = False
        """True if the last record was a single line whose end is already written."""

    def feed(self, piece: bytes) -> bytes:
        """Return the records that this piece completes, with the line ends between them."""
        data = self._held + piece
        if not self._has_begun and not self.is_broken:
            if len(data) < len(BYTE_ORDER_MARK):
                self._held = data
                return b""
            self._has_begun, data = True, data.removeprefix(BYTE_ORDER_MARK)
        out: list[bytes] = []
        at = 0 if self.is_broken else self._split(data, out)
        self._held = data[at:]
        if self.is_broken or len(self._held) > MAX_RECORD:
            out.append(self.finish())
        return b"".join(out)

    def finish(self) -> bytes:
        """Return what is held back, unchanged: the document is cut, or ends with a line without an end."""
        self.is_broken = True
        held, self._held = self._held, b""
        return held

    def _split(self, data: bytes, out: list[bytes]) -> int:
        """Add the records of the data to `out`; return the offset from which on more data is needed."""
        text = data.decode("latin-1")
        at = 0
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                self.is_broken = _UNFINISHED.match(text, at) is None
                return at
            sign, scalar = found["sign"] or '"', found["scalar"]
            if scalar is not None and found.end() == len(text):
                return at
            end: int | None = found.end()
            if sign == "\n":
                out.append(b"" if self._is_line_over else b"\n")
                self._is_line_over = False
            elif sign == "{" and self._stack in ("[", "{[") and self._wants in (Next.VALUE, Next.FIRST):
                end = self._record(text, found.end() - 1)
                if end is None:
                    return at
                out.append(self._line(data[found.end() - 1 : end]))
                self._wants = Next.MORE
            elif (scalar is not None and not _SCALAR.fullmatch(scalar)) or not self._take(sign, scalar):
                self.is_broken = True
                return at
            at = end or at
        return at

    def _record(self, text: str, at: int) -> int | None:
        """Return the end of the record at this place; None: more data is needed, or it is no JSON."""
        try:
            return _DECODER.raw_decode(text, at)[1]
        except json.JSONDecodeError as error:
            is_cut = error.msg.startswith("Unterminated string") or error.pos >= len(text) - MAX_TOKEN
            self.is_broken = not is_cut
        except RecursionError:
            self.is_broken = True
        return None

    def _take(self, sign: str, scalar: str | None) -> bool:
        """Take a token outside of records; return True if a document may have such a token there."""
        wants, inside = self._wants, self._stack[-1:]
        if sign == ",":
            self._wants = Next.VALUE if inside == "[" else Next.KEY
            return wants == Next.MORE and inside != ""
        if sign == ":":
            self._wants = Next.VALUE
            return wants == Next.COLON
        if sign in OPENED_BY:
            self._stack, self._wants = self._stack[:-1], Next.MORE
            return inside == OPENED_BY[sign] and wants in (Next.MORE, Next.FIRST)
        if wants == Next.KEY or (wants == Next.FIRST and inside == "{"):
            self._wants = Next.COLON
            return sign == '"' and scalar is None
        self._wants = Next.MORE
        if sign in "{[":
            self._stack, self._wants = self._stack + sign, Next.FIRST
        return wants in (Next.VALUE, Next.FIRST) and len(self._stack) <= MAX_DEPTH

    def _line(self, record: bytes) -> bytes:
        """Return a record on one line, followed by the line ends that it contained.

        If it ends with a step, the document's number of steps is added.
        """
        line = _INDENT.sub(b" ", record)
        self._is_line_over = b"\n" not in record
        if self._total is not None and _STEP_AT_END.search(line):
            line = line[:-1].rstrip() + self._total
        return line + b"\n" * max(1, record.count(b"\n"))
