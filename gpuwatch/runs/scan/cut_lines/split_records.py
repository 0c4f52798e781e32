"""Joins a user's words that line feeds split over several lines of a collected kernel log.

The kernel quotes names and mount options with their line feeds, and `dmesg` shows one such record as several
lines with the same time, or indented. `agent.logs.lines.user_words` does the same within a record.
"""

from __future__ import annotations

import re

_HEAD = re.compile(
    rb"(?:<\d{1,3}>)?(?:[a-z]{3,8} {0,6}: {0,2}[a-z]{3,6} {0,4}: {0,2})?"
    rb"(?:(?:[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d|\d{4}-\d\d-\d\dT[\d:.,]{8,18}(?:Z|[+-]\d\d:?\d\d)?)"
    rb"(?: \S{1,80} kernel:)?)?"
    rb" ?(?:\[ {0,8}\d{1,8}\.\d{6}\]|\[[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}\])?"
    rb"(?:\[ {0,8}[TC]\d{1,8}\])? ?"
)
"""Matches the time and the writer of a kernel line."""
_EXACT = re.compile(rb"\d\.\d{6}\]|:\d\d[.,]\d{6}")
"""Matches a time in microseconds, which two records rarely share."""
_BOOT = re.compile(rb"\[ {0,8}0\.000000\]")
"""Matches the time of records from before the clock runs; no user process exists then."""
_FAULT = re.compile(rb"\[\d+\]:? (?:segfault|trap|general|unhandled|bad|potentially) [^\n]* in ([^\n]*)")
_MAPPING = re.compile(rb"\[[0-9a-f]+[,+][0-9a-f,+]+\](?: likely on CPU .{0,60})?\s*$")
"""Matches text that the kernel writes after the name of a file."""
_QUOTE = re.compile(rb"(?:^|[\s=(])(['\"`])")
_QUOTE_ENDS = re.compile(rb"(['\"`])(?:: -?\d{1,4}| or missing value)?\s*$")
_ENDS_NAME = re.compile(
    rb"(.{0,15}?)(?:\[\d+\]:? (?:segfault|trap|general|unhandled|bad|potentially) | ?invoked oom-killer"
    rb"|\) total-vm:| ?(?:Tainted|Not tainted|Kdump)|:\d+ (?:is )?blocked|:\d+\]$)"
)
"""Matches text that the kernel writes after the name of a process."""
_BETWEEN_WORDS = re.compile(rb"[ \t()'\"`]")
_DRIVER = (b"NVRM:", b"nvidia-nvswitch")
"""Prefixes of lines of NVIDIA's driver, the only one that writes several lines at once."""
MAX_NAME = 15
"""Most bytes of a process's name, with its line feeds."""
MAX_RECORD = 1024
"""Most bytes of a record (the kernel's LOG_LINE_MAX)."""


def without_split_words(data: bytes) -> bytes:
    """Return complete lines of a kernel log in which a user's words on several lines are joined.

    `_` replaces the blanks and quotes in the parts that continue them; the size is unchanged.
    """
    lines = data.split(b"\n")
    record = _Record()
    for index, line in enumerate(lines):
        record.take(lines, index, line)
    return b"\n".join(lines)


class _Record:
    """The kernel record of the lines above, while a user's words may continue below it."""

    def __init__(self) -> None:
        self._head = b""
        """Head (time and writer) of the record's first line."""
        self._may_be_indented = False
        self._left = -1
        """Bytes left in the record if a user's words continue below; negative: they do not."""
        self._first = -1
        """Index of the line in which an open quotation began; -1: none."""

    def take(self, lines: list[bytes], index: int, line: bytes) -> None:
        """Process the next line; join the words that it continues with the lines above, in place."""
        if line[:1] in (b" ", b"\t"):
            if self._may_be_indented:
                lines[index] = _joined(line, len(line) - len(line.lstrip()))
            return
        found = _HEAD.match(line)
        at = 0 if found is None else found.end()
        head, message = line[:at].rstrip(), line[at:]
        if not head or head != self._head:
            self._head, self._left, self._first = head, -1, -1
        self._may_be_indented = head != b"" and not message.startswith(_DRIVER)
        if not head:
            return
        self._left -= len(message) + 1
        if self._left >= 0:
            lines[index] = _joined(line, at)
            if _EXACT.search(head) is None and _ends_quotation(message):
                self._left = -1
            return
        self._join_name(lines, index, message)
        if _ends_quotation(message) and self._first >= 0:
            for each in range(self._first + 1, index + 1):
                lines[each] = _joined(lines[each], _message_at(lines[each]))
        quotes = _FAULT.search(message) or _QUOTE.search(message)
        if quotes is not None:
            self._first = index
            is_exact = _EXACT.search(head) is not None and _BOOT.search(head) is None
            self._left = MAX_RECORD - len(message) if is_exact or _is_open(message) else -1

    def _join_name(self, lines: list[bytes], index: int, message: bytes) -> None:
        """Join the lines above that can be the beginning of a process's name."""
        found = _ENDS_NAME.match(message)
        if found is None:
            return
        left = MAX_NAME - len(found[1])
        for above in range(index - 1, max(-1, index - MAX_NAME), -1):
            at = _message_at(lines[above])
            left -= len(lines[above]) - at + 1
            if lines[above][:at].rstrip() != self._head or left < 0:
                return
            lines[above] = _joined(lines[above], at)


def _message_at(line: bytes) -> int:
    found = _HEAD.match(line)
    return 0 if found is None else found.end()


def _is_open(message: bytes) -> bool:
    """Return True if a quotation in a message is not closed."""
    fault = _FAULT.search(message)
    if fault is not None:
        return _MAPPING.search(fault[1]) is None
    quote = _QUOTE.search(message)
    return quote is not None and message.count(quote[1]) % 2 == 1


def _ends_quotation(message: bytes) -> bool:
    """Return True if a message ends a quotation that it does not begin."""
    if _FAULT.search(message) is not None:
        return False
    quote = _QUOTE_ENDS.search(message)
    return _MAPPING.search(message) is not None or (quote is not None and message.count(quote[1]) % 2 == 1)


def _joined(line: bytes, at: int) -> bytes:
    return line[:at] + _BETWEEN_WORDS.sub(b"_", line[at:].rstrip(b"\r")) + line[len(line.rstrip(b"\r")) :]
