"""Reads torch's pickle or JSON files as plain data; a pickle is never executed."""

from __future__ import annotations

import io
import pickle
from typing import Any, NoReturn, TypeVar

import msgspec

from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.number_text import limit_text, mebibytes
from gpuwatch.plain import plain

MAX_BYTES = 256 << 20
"""Largest file in bytes.

A full ring of 2,000 entries with stacks is about 2 MB, and some rings are a hundred times larger.
"""
MAX_DEPTH = 64
"""Deepest nesting in JSON that is read: a dump needs 6, and more could exhaust the parser's stack."""
MAX_NAME = 120
"""Most characters of a damaged file's text that are shown."""
PICKLE_BEGINS = b"\x80"
FLIGHT_DUMP = "a flight recorder's dump"


class NoDumpError(ValueError):
    """Raised if a file is not a flight-recorder dump; the message gives the reason."""


class UnreadableDumpError(NoDumpError):
    """Raised if the file may be a dump of an unsupported kind: its rank may have written one."""


class _Plain(pickle.Unpickler):
    """Unpickler for numbers, strings, lists, tuples and dicts; torch's dumps contain no globals."""

    def find_class(self, module: str, name: str) -> NoReturn:
        """Raise an error: unpickling a global could call it."""
        named = plain(f"{module}.{name}"[:MAX_NAME])
        raise UnreadableDumpError(f"refers to {named}, which torch does not write into a dump: refused")

    def persistent_load(self, _pid: object) -> NoReturn:
        """Raise an error: torch's dumps refer to no external objects."""
        raise UnreadableDumpError("points to an object outside of itself: refused")


_Kind = TypeVar("_Kind")


def read_as(data: bytes, kind: type[_Kind], what: str = FLIGHT_DUMP, most: int = MAX_BYTES) -> _Kind:
    """Decode a pickle or JSON text as `kind`; missing fields take their defaults.

    `what` names the kind in messages, `most` limits the size in bytes. JSON is decoded directly into `kind`;
    lists and dictionaries would take ten times the memory.

    Raises:
        NoDumpError: the data is neither, is cut off, too big or of another kind, or names an object to call.
    """
    if len(data) > most:
        raise UnreadableDumpError(f"{mebibytes(len(data))}, more than the {limit_text(most)} that are read")
    if not data:
        raise NoDumpError("empty: the rank was terminated before it could write its dump")
    if data.startswith(PICKLE_BEGINS):
        return _converted(_unpickled(data), kind, what)
    if data.lstrip()[:1] == b"{":
        return _parsed(data, kind, what)
    raise NoDumpError("neither a pickle nor JSON")


def _unpickled(data: bytes) -> Any:  # noqa: ANN401 - whatever the dump holds
    try:
        return _Plain(io.BytesIO(data)).load()
    except NoDumpError:
        raise
    except MemoryError as error:
        raise UnreadableDumpError("asks for more memory than a dump needs: refused") from error
    except Exception as error:  # a damaged stream can make the unpickler raise anything
        if data[-1:] == b".":
            raise UnreadableDumpError(f"a damaged pickle: {plain(str(error)[:MAX_NAME])}") from error
        raise NoDumpError("truncated: the rank was terminated while writing it") from error


def _converted(held: object, kind: type[_Kind], what: str) -> _Kind:
    try:
        return msgspec.convert(held, kind, strict=False)
    except DECODE_ERRORS as error:
        raise _of_another_kind(error, what) from error


def _of_another_kind(error: Exception, what: str) -> UnreadableDumpError:
    return UnreadableDumpError(f"not {what}: {plain(str(error))[:160]}")


def _parsed(data: bytes, kind: type[_Kind], what: str) -> _Kind:
    if _depth(data) > MAX_DEPTH:
        raise UnreadableDumpError("JSON nested deeper than any dump")
    try:
        return msgspec.json.decode(data, type=kind, strict=False)
    except msgspec.ValidationError as error:
        raise _of_another_kind(error, what) from error
    except (ValueError, RecursionError) as error:
        if data.rstrip()[-1:] == b"}":
            raise UnreadableDumpError(f"damaged JSON: {plain(str(error)[:MAX_NAME])}") from error
        raise NoDumpError("truncated: the rank was terminated while writing it") from error


def _depth(data: bytes) -> int:
    """Return the nesting depth of a JSON text; brackets in strings do not count."""
    marks = data.replace(rb"\\", b"").replace(rb"\"", b"").translate(None, _NO_MARKS)
    deepest = depth = 0
    is_in_string = False
    for mark in marks.replace(b'""', b""):  # most strings contain no bracket
        if mark == _QUOTE:
            is_in_string = not is_in_string
        elif not is_in_string:
            depth += 1 if mark in b"[{" else -1
            deepest = max(deepest, depth)
    return deepest


_QUOTE = ord('"')
_NO_MARKS = bytes(set(range(256)) - set(b'[]{}"'))
