"""Normalises a physical line for the rules: removes prefixes and bars, joins hard-wrapped records."""

from functools import lru_cache

from ...patterns.module_pattern import pattern_of
from ...patterns.quick_checks import has_one
from ...ranks.learned_tags import CLEARED, TAGS, learned_writer
from .json_lines import is_object, object_at, texts_of
from .prefixes import Speaker, read_inner_prefixes, read_prefixes, untagged, writers
from .programs import KERNEL
from .splitter import MAX_LINE, glued, line_text, unmasked_text
from .user_words import without_user_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

    from ..records.wanted_lines import WantedLines

MAX_NESTED = 2
"""Nesting of JSON records: a logger's in a container runtime's."""
AROUND_BYTES = MAX_LINE // 4
"""Bytes of a long message before and behind a place in it: a pattern may need them."""
MAX_WRAPPED = 3
"""Physical lines that a record may be wrapped into."""

_WRAPPED = pattern_of(
    r"WorkNCCL\([^)]*$|\bWatchdog caught collective operation timeout:?\s*$|\) ran for\s*$"
    r"|^\[[EWIF][^\]]{0,60}\.cpp:\d+\] (?:\[[^\]]*Rank \d+\])?\s*$"
)
BREAKABLE = (b"WorkNCCL(", b"collective operation timeout", b" ran for", b".cpp:")
"""Every line that `_WRAPPED` matches contains one of these."""
_TAIL_BYTES = 4096
_FRAME = pattern_of(r"""[\s|]{0,80}File "[^"]{1,500}", line \d{1,9}""")
_TAG = pattern_of(r"\s?[\w-]{1,60}(?:[./][\w*-]{1,60}){0,8}: $")
"""The tag that fluentd writes before a record."""
_INDENT = pattern_of(r"[\s|]*")
_ECHO = pattern_of(
    r"\s+(?:raise\b|assert\b|(?:self\.)?_?(?:log|logger|logging|LOG|LOGGER)\.[a-z]+\(|warnings\.warn\(|print\()"
    r"|\s+f[\"'].*[\"']\)?,?\s*$|\s*[\^~]{2,}\s*$|\s*[│|]\s*(?:❱|\d+ )|\s*❱"
)


def messages(
    line: bytes, local_ranks: bool = False, records: bool = True, wanted: "WantedLines | None" = None
) -> "tuple[list[tuple[str, Speaker]], bool]":
    """Return (message, writer) pairs of a physical line, and whether `[rankN]:` proved to be a local rank.

    `records`: for a JSON record return its message, not the line itself. `wanted`: finds the places that are
    to be searched; with it, a record of more than `MAX_LINE` bytes is read, and of a long message the parts
    around them are returned. Without it, a longer line is cut.
    """
    found: list[tuple[str, Speaker]] = []
    proof = _take(line, Speaker(), local_ranks, found, MAX_NESTED if records else 0, wanted)
    return found, proof


_known = lru_cache(maxsize=512)(messages)
CLEARED.append(_known.cache_clear)


def known_messages(line: bytes, local_ranks: bool = False) -> "tuple[list[tuple[str, Speaker]], bool]":
    """Return what `messages` returns, cached: each of a thousand errors is read with the lines before it.

    Do not modify the result.
    """
    return _known(line, local_ranks)  # always two arguments: a cache takes one less for another call


def last_message(line: bytes, local_ranks: bool = False) -> "tuple[str, Speaker]":
    """Return (last message of a physical line, its writer), as `known_messages` has them."""
    return known_messages(line, local_ranks)[0][-1]


def _take(
    line: bytes,
    speaker: "Speaker",
    local_ranks: bool,
    found: "list[tuple[str, Speaker]]",
    nested: int,
    wanted: "WantedLines | None" = None,
) -> bool:
    """Add the (message, writer) pairs of a line to `found`; return whether `[rankN]:` proved to be local.

    `speaker`: the writer known from the record around the line. `local_ranks`: read `[rankN]:` as a local
    rank. `nested`: how many levels of JSON records to unpack; 0: none.
    """
    around = wanted if len(line) > MAX_LINE else None
    if b"{" in line and nested:
        text = line_text(line) if around is None else unmasked_text(line)  # its texts are masked one by one
        proof = _take_record(text, speaker, local_ranks, found, nested, wanted)
        if proof is not None:
            return proof
    proof = False
    for piece in _pieces(line) if around is None else _around(line, around):
        speaker = Speaker(speaker)
        text = untagged(line_text(piece), speaker)
        at, proved = read_prefixes(text, speaker, local_ranks)
        proof = proof or proved
        for number, message in enumerate([text[at:]] if is_object(text[at:]) else writers(text[at:])):
            written_by = Speaker(speaker)
            skip = read_prefixes(message, written_by, local_ranks)[0] if number else 0
            read_inner_prefixes(message, written_by)
            text = message[skip:]
            found.append((without_user_words(text) if written_by.program == KERNEL else text, written_by))
    return proof


def _pieces(line: bytes) -> "tuple[bytes, ...]":
    cut = glued(line)
    return (line[:cut], line[cut:]) if cut else (line,)


def _around(line: bytes, wanted: "WantedLines") -> "Iterator[bytes]":
    """Yield the beginning of a long message, and parts around the places beyond it that `wanted` names."""
    yield line[:MAX_LINE]
    searched = MAX_LINE - AROUND_BYTES
    for place in wanted.places(line):
        if place >= searched:
            begin = line.find(b" ", place - AROUND_BYTES, place) + 1 or place
            yield line[begin : begin + MAX_LINE]
            searched = begin + MAX_LINE - AROUND_BYTES


def _take_record(
    text: str,
    speaker: "Speaker",
    local_ranks: bool,
    found: "list[tuple[str, Speaker]]",
    nested: int,
    wanted: "WantedLines | None",
) -> "bool | None":
    """Add the (message, writer) pairs of a JSON record to `found`; arguments as of `_take`.

    Return whether `[rankN]:` proved to be local, or None if the line is no record. A message may have
    prefixes or be a record too.
    """
    begin = object_at(text)
    if begin < 0:
        return None
    inner = Speaker(speaker)
    at, proof = read_prefixes(untagged(text[:begin], inner), inner, local_ranks) if begin else (0, False)
    texts = texts_of(text[begin:], inner, wanted)
    learned = learned_writer(text) if TAGS and inner.rank is None else None
    inner.rank = inner.rank if learned is None else learned[0]
    if not texts or (text[at:begin].strip() and not _TAG.match(text[at:begin])):
        return None
    for each in texts:
        proof = _take(each.encode("utf-8", "replace"), inner, local_ranks, found, nested - 1, wanted) or proof
    return proof


def is_wrapped(text: str) -> bool:
    """Return True if a text is the beginning of a record that continues on the next physical line."""
    return _WRAPPED.search(text) is not None


def may_be_wrapped(line: bytes) -> bool:
    """Return True if a physical line contains one of the words that all wrapped records have."""
    return has_one(line, BREAKABLE)


def broken_end(data: bytes) -> int:
    """Return how many bytes at the end of complete lines belong to an unfinished wrapped record."""
    tail = data[-_TAIL_BYTES:]
    if not may_be_wrapped(tail):
        return 0
    lines = tail.replace(b"\r", b"\n").split(b"\n")[-MAX_WRAPPED:]  # the last one is empty
    size, broken, text = 0, 0, ""
    for line in reversed(lines[:-1]):
        stated = messages(line)[0][-1][0]
        if text and not is_wrapped(stated):
            break
        size += len(line) + 1
        text = joined(stated, text) if text else stated
        if is_wrapped(text):
            broken = size
    return broken


def joined(first: str, second: str) -> str:
    """Return two halves of a wrapped record as one text.

    A space is put between them, except inside a word that a full line breaks, or after `(` and `=`.
    """
    first, second = first.rstrip("\r\n"), second.lstrip()
    inside = first[-1:].isalnum() and second[:1].isalnum() and len(first) >= 78
    return first + ("" if inside or first[-1:] in "(= " else " ") + second


def is_source(message: str, above: str) -> bool:
    """Return True if a line quotes source code in a traceback, and thus is no error itself.

    `above` is the previous line by the same writer. Frames of frozen, generated or deleted code quote no
    source: the line below such a frame is a quotation only if it is indented deeper than the frame.
    """
    if _ECHO.match(message) is not None:
        return True
    return _FRAME.match(above) is not None and _indent(message) > _indent(above)


def _indent(text: str) -> int:
    found = _INDENT.match(text)
    return found.end() if found else 0
