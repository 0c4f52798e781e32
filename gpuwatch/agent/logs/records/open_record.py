r"""The part of a JSON record before a place inside of it, shortened: with it, the rest is a record again.

Example: behind `{"level": "ERROR", "message": "` and 300 kB of text, `CUDA out of memory"}` is read as the
record `{"level": "ERROR", "message": "(the first characters)\nCUDA out of memory"}`.
"""

import json

from ...patterns.module_pattern import pattern_of
from .shortened import shortened

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_HEAD = 800
"""Bytes of a line in which a record begins: 200 characters of prefixes."""
NO_MESSAGE = "stringValue"
"""A field of messages that is read last: a part of a record may be before its message."""
MAX_ESCAPE = 6
"""Bytes of a JSON escape: `\\u12ab`."""

_BEGIN = pattern_of(rb'\{\s{0,4}"')
_TOKEN = pattern_of(rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\]]', 16)  # 16: re.DOTALL
_REST = pattern_of(rb'[^"\\]*(?:\\.[^"\\]*)*"?', 16)
"""The rest of a string."""
_SCALAR = pattern_of(rb"[\w.+-]{0,40}$")
_SEPARATOR = pattern_of(rb",\s{0,8}$")
_CLOSER = {b"{": b"}", b"[": b"]"}


class OpenRecord(object):
    """A JSON record up to a place inside of it."""

    __slots__ = ("closers", "in_list", "in_string", "prefix", "text")

    def __init__(self, prefix: bytes, text: bytes, closers: "list[bytes]", in_string: bool) -> None:
        self.prefix = prefix
        """The line's text before the record."""
        self.text = text
        """The record up to the place, its long values shortened."""
        self.closers = closers
        """The ends of the open objects and lists, outermost first."""
        self.in_string = in_string
        self.in_list = False
        """True: the string is written as a list of its bytes."""

    def line(self, data: bytes) -> "bytes | None":
        """Return the line of a whole record that ends with `data`, the bytes from the place on.

        What `data` leaves open is closed. None: it is no JSON.
        """
        if not self.text and data.rstrip()[-1:] == b"}" and self._opened(data) == ([], False):
            return self.prefix + data
        closed = self._closed(data)
        if closed is None:
            return None
        _, record, closers, in_string, _, _ = closed
        name, holder = _last(record)
        if in_string and isinstance(holder[name], str):
            inner = begun(holder[name].encode("utf-8", "replace"))
            rest = inner and inner.line(holder[name].encode("utf-8", "replace")[len(inner.prefix) :])
            holder[name] = rest.decode("utf-8", "replace") if rest else holder[name]
        if closers or self.closers:
            record.setdefault(NO_MESSAGE, " ")
        return self.prefix + json.dumps(record, ensure_ascii=False).encode("utf-8", "replace")

    def after(self, data: bytes) -> "OpenRecord | None":
        """Return the record that is open at the end of `data`, the bytes behind it; None: it has ended."""
        closed = self._closed(data)
        if closed is None:
            return None
        _, record, closers, in_string, added, left_out = closed
        if not closers:
            return None
        short = shortened(record)
        name, holder = _last(record)
        inner = _after(holder[name]) if in_string and added == b'"' else None
        if inner is not None:
            name, holder = _last(short)
            holder[name] = inner
        text = json.dumps(short, ensure_ascii=False).encode("utf-8", "replace")
        end = added + b"".join(reversed(closers))
        if not text.endswith(end):
            return None
        behind = b"\\n" if in_string and inner is None else b""
        return OpenRecord(self.prefix, text[: -len(end)] + behind + left_out, closers, in_string)

    def _closed(self, data: bytes) -> "tuple[bytes, Any, list[bytes], bool, bytes, bytes] | None":
        """Return what the record that ends with `data` is, and what is open at its end; None: no JSON object.

        In order: its text, its content as a dict, the ends of the open containers, whether a string is open,
        the bytes added to complete a cut key or value, and the bytes left out for that.
        """
        opened = self._opened(data)
        if opened is None:
            return None
        closers, in_string = opened
        whole = self.text + data
        for left_out, added in _endings(whole, in_string):
            text = whole[: len(whole) - len(left_out)] + added + b"".join(reversed(closers))
            try:
                record = json.loads(text.decode("utf-8", "replace").replace("\t", "    "))
            except (ValueError, RecursionError):
                continue
            return (text, record, closers, in_string, added, left_out) if isinstance(record, dict) else None
        return None

    def _opened(self, data: bytes) -> "tuple[list[bytes], bool] | None":
        """Return (ends of the containers that are open behind `data`, whether a string is open).

        None if an end in `data` does not match a beginning.
        """
        closers, in_string, at = list(self.closers), self.in_string, 0
        if in_string:
            at = _REST.match(data).end()  # type: ignore[union-attr]  # it matches any bytes
            in_string = not _is_closed(data, 0, at)
        for found in () if in_string else _TOKEN.finditer(data, at):
            token = found.group()
            if token[:1] == b'"':
                in_string = not _is_closed(data, found.start() + 1, found.end())
            elif token in _CLOSER:
                closers.append(_CLOSER[token])
            elif not closers or closers.pop() != token:
                return None
        return closers, in_string


def begun(line: bytes) -> "OpenRecord | None":
    """Return the empty record that begins in a line behind its prefixes; None: none does."""
    found = _BEGIN.search(line, 0, MAX_HEAD)
    return None if found is None else OpenRecord(line[: found.start()], b"", [], False)


def _last(record: "Any") -> "tuple[Any, Any]":
    """Return (name, holder) of the last value of a record: what is open at its end."""
    name: Any = ""
    holder: Any = {"": record}
    while holder[name] and isinstance(holder[name], (dict, list)):
        holder = holder[name]
        name = len(holder) - 1 if isinstance(holder, list) else next(reversed(list(holder)))
    return name, holder


def _after(value: str) -> "str | None":
    """Return the record inside of an open string up to the string's end, shortened; None: it is no record."""
    data = value.encode("utf-8", "replace")
    inner = begun(data)
    inner = None if inner is None else inner.after(data[len(inner.prefix) :])
    return None if inner is None else (inner.prefix + inner.text).decode("utf-8", "replace")


def _is_closed(data: bytes, begin: int, end: int) -> bool:
    """Return True if the string whose bytes are `data[begin:end]` ends with its quote."""
    if data[end - 1 : end] != b'"' or end == begin:
        return False
    return (end - 1 - begin - len(data[begin : end - 1].rstrip(b"\\"))) % 2 == 0


def _endings(text: bytes, in_string: bool) -> "list[tuple[bytes, bytes]]":
    """Return (bytes to leave out at the end, bytes to add there): ways to complete a cut key or value."""
    if in_string:
        cut = _cut_escape(text)
        return [(cut, b'"'), (cut, b'": null')]
    endings = [(b"", b""), (b"", b": null"), (b"", b" null")]
    for pattern in (_SEPARATOR, _SCALAR):
        found = pattern.search(text, max(0, len(text) - 48))
        if found is not None and found.group():
            endings.append((found.group(), b"" if pattern is _SEPARATOR else b"null"))
    return endings


def _cut_escape(text: bytes) -> bytes:
    """Return the unfinished escape at the end of an open string; empty: there is none."""
    at = text.rfind(b"\\", max(0, len(text) - MAX_ESCAPE))
    if at < 0 or (at + 1 - len(text[: at + 1].rstrip(b"\\"))) % 2 == 0:
        return b""
    size = MAX_ESCAPE if text[at + 1 : at + 2] == b"u" else 2
    return text[at:] if len(text) - at < size else b""
