"""Takes away what a tool put before every line of a log: numbers, seconds since a start, `> ` of mails.

The words of a log line count from its begin, and a number there may be taken for the number of a process.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, pairwise

MARGIN = "margin"
"""The packing name of a plain file with a margin."""
HEAD_BYTES = 1 << 15
MIN_LINES = 12
MIN_SHARE = 0.97
"""Share of the lines that must have the margin; a file cut by a viewer has others at its ends."""
MAX_LINE = 1 << 16
_FORMS = tuple(
    re.compile(form)
    for form in (
        rb" {0,8}(?P<count>\d{1,8})\t",
        *(
            rb" {0,8}(?P<count>\d{1,8})(?:%s|$)" % end
            for end in (rb"[:|-] ", rb" \| ", rb"[:|-]", rb"  ", rb" ")
        ),
        *(
            rb"\[ {0,6}\+?(?P<seconds>\d{1,7}\.(?:\d{1,3}(?: ?s)?|\d{4,6} ?s))\](?:%s|$)" % end
            for end in (rb": ", rb" ", rb"")
        ),
        *(
            rb" {0,6}\+?(?P<seconds>\d{1,7}\.(?:\d{1,3}(?: ?s)?|\d{4,6} ?s))(?:%s|$)" % end
            for end in (rb": ", rb" \| ", rb"\t", rb" ")
        ),
        rb"(?P<sign>>|\|)(?: |$)",
    )
)
"""Margins: numbers of lines, seconds, a sign."""
_NO_LETTER = re.compile(rb"[^A-Za-z]+")
_LOG = re.compile(
    rb"Traceback \(|  File \"|\[(?:rank|default|trainer|RANK )\d|\[\d{1,5}\][: ]"
    rb"|\[?20\d\d[-/.]\d\d[-/.]\d\d[T ]|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d |\[?\d\d[/.:-]\d\d[/.:, -]\d\d"
    rb"|[IWEF]\d{4} \d\d:|(?:srun|slurmstepd|mpirun|torchrun|kernel): "
    rb"|(?:INFO|WARNING|ERROR|DEBUG)\b|\[[A-Za-z][\w.-]{0,40}\]"
)
"""How lines of a log begin."""
MIN_LOG_LINES, MIN_WORDS = 2, 4
"""Least lines of a log, and different words of lines numbered from 1, that make the text a log."""


def form_of(head: bytes) -> re.Pattern[bytes] | None:
    """Return the form of the margin that a file shows by its first bytes; None: it has none."""
    lines = head[:HEAD_BYTES].splitlines()
    lines = lines[:-1] if len(head) >= HEAD_BYTES else lines
    lines = [line for line in lines if line]
    if len(lines) < MIN_LINES:
        return None
    for form in _FORMS:
        found = _matches(form, lines)
        having = [each for each in found if each is not None]
        if not having or not _counts(form, having):
            continue
        rest = [line[each.end() :] for line, each in zip(lines, found, strict=True) if each is not None]
        if _is_log(form, having, rest):
            return form
    return None


def _matches(form: re.Pattern[bytes], lines: list[bytes]) -> list[re.Match[bytes] | None]:
    """Return the match of each line (None: no match); [] if fewer than `MIN_SHARE` of the lines match."""
    found: list[re.Match[bytes] | None] = []
    missing = 0
    for line in lines:
        match = form.match(line)
        found.append(match)
        if match is None:
            missing += 1
            if len(lines) - missing < MIN_SHARE * len(lines):
                return []
    return found


def _is_log(form: re.Pattern[bytes], having: list[re.Match[bytes]], rest: list[bytes]) -> bool:
    """Return True if what follows the margin are lines of a log, not the cells of a table."""
    if "sign" in form.groupindex:
        return sum(text.endswith(b"|") for text in rest) * 2 < len(rest)
    if "count" not in form.groupindex:
        return _log_lines(rest) >= MIN_LOG_LINES
    numbered = [each[0].endswith(b"\t") and int(each[1]) == line for line, each in enumerate(having, 1)]
    words = {_NO_LETTER.sub(b" ", text[:60]) for text in rest}
    return (all(numbered) and len(words) >= MIN_WORDS) or _log_lines(rest) >= MIN_LOG_LINES


def _log_lines(texts: list[bytes]) -> int:
    return sum(_LOG.match(text) is not None for text in texts)


def _counts(form: re.Pattern[bytes], having: list[re.Match[bytes]]) -> bool:
    """Return True if the numbers of a margin go on as those of lines or seconds do."""
    if "sign" in form.groupindex:
        return len({each[1] for each in having}) == 1
    numbers = [float(each[1].rstrip(b" s")) for each in having]
    if "count" in form.groupindex:
        return all(one < other for one, other in pairwise(numbers))
    return numbers[-1] > numbers[0] and all(one <= other for one, other in pairwise(numbers))


def without_margin(pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield the text without the margin that its first piece shows."""
    first = next(pieces, b"")
    form = form_of(first)
    held = b""
    for piece in chain([first], pieces):
        if form is None:
            yield piece
            continue
        data = held + piece
        cut = data.rfind(b"\n") + 1
        cut = len(data) if not cut and len(data) > MAX_LINE else cut
        held = data[cut:]
        yield b"".join(_bare(form, line) for line in data[:cut].splitlines(keepends=True))
    if held and form is not None:
        yield _bare(form, held)


def _bare(form: re.Pattern[bytes], line: bytes) -> bytes:
    text = line.rstrip(b"\r\n")
    found = form.match(text)
    return line if found is None else text[found.end() :] + line[len(text) :]
