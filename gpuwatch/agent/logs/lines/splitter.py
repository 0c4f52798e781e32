"""Splits log bytes into lines at line feeds and carriage returns, without escapes.

Of a progress bar the last state is a line.
"""

import re
from copy import copy
from functools import lru_cache

from ...masking.secret_masking import masked
from ...masking.secret_phrases import SecretLines
from ..records.byte_lists import without_byte_lists

MAX_LINE = 16 * 1024
"""Bytes of a line that are kept."""
CACHED_LINES, CACHED_LONG_LINES, MAX_SHORT_LINE = 256, 16, 1024
"""Cached texts of short and long lines, which are read several times; maximum bytes of a short line."""

_ANSI = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    rb"|\][^\x07\x1b\r\n]*(?:\x07|\x1b\\)"  # OSC: titles, links; without an end it hides no text
    rb"|[PX^_][^\x1b\r\n]*\x1b\\"  # DCS, SOS, PM, APC: the same
    rb"|[ -/]*[0-~])?"
)
_GONE = bytes(c for c in range(32) if c not in (9, 10, 13, 27)) + b"\x7f"
_STRUCK_OVER = re.compile(rb"([^\x08\r\n_])\x08_|[^\x08\r\n]\x08(?=[^\x08\r\n])")
"""A character overstruck by the next one, as `man` prints bold and underlined letters."""
_MARK = re.compile(rb"^(?:\xef\xbb\xbf|\xff\xfe|\xfe\xff)")
_MARKS = (b"\xef", b"\xff", b"\xfe")
"""First bytes of the byte order marks of UTF-8 and UTF-16."""
_LINE_ENDS = re.compile(rb"\r\n|\n|\r")
_BAR = re.compile(
    r"\d{1,3}(?:\.\d+)?%\s?\|"
    r"|(?<![\d.,])\d[\d.,]{0,20}[kMG]?(?:it|s|B|ba|ex|tok|step|batch\w*|sample\w*|example\w*)/(?:s|it)\b"
    r"|(?<!\d)\d{1,12}/\d{1,12} ?\[[\d:]{1,12}<"
)
_WHOLE_BAR = re.compile(r"\d{1,3}%\s?\|[^|]{0,200}\| ?[\d.?kMG]{1,16}/[\d.?kMG]{1,16} \[[^\[\]]{1,300}\]\s*$")
_LEVEL = re.compile(r"\b(?:ERROR|CRITICAL|FATAL|SEVERE)\b")
_TROUBLE = re.compile(r"(?i)error|fatal|fail|exception|abort|crash|lost|dead|died|invalid")
_BAR_END = re.compile(
    rb"(?:(?<![\d.,?])[\d?][\d.,]{0,20}[kMG]?[A-Za-z]{1,10}/(?:s|it)\b[^\]\r\n]{0,500}\]"
    rb"|%\|(?:\xe2\x96[\x80-\x9f]|[ #]){0,400})(?=\s{0,80}[A-Za-z\[(*<])"
)


def scrubbed(data: bytes, in_list: bool = False) -> bytes:
    """Return log bytes without escape sequences, control characters and lists of bytes; line ends stay.

    `in_list`: the data begins inside a list of a message's bytes.
    """
    if b"\x1b" in data:
        data = _ANSI.sub(b"", data)
    if b"\x08" in data:
        data = _STRUCK_OVER.sub(rb"\1", data)
    if b"\x00" in data or b"\x08" in data:
        data = data.translate(None, _GONE)
    return without_byte_lists(data, in_list)


def line_text(line: bytes) -> str:
    """Return a line as text to show: without escapes, control characters and secrets, tabs as spaces, cut."""
    return _short_text(line) if len(line) <= MAX_SHORT_LINE else _long_text(line[:MAX_LINE])


def unmasked_text(line: bytes) -> str:
    """Return a line as text with its secrets, only to read its time; it must not be shown."""
    if b"\x1b" in line:
        line = _ANSI.sub(b"", line)
    if line[:1] in _MARKS:
        line = _MARK.sub(b"", line)
    if b"\x08" in line:
        line = _STRUCK_OVER.sub(rb"\1", line)
    line = line.translate(None, _GONE + b"\x1b\r\n")
    return line.decode("utf-8", "replace").replace("\t", "    ")


def _text(line: bytes) -> str:
    return masked(unmasked_text(line))


_short_text = lru_cache(maxsize=CACHED_LINES)(_text)
_long_text = lru_cache(maxsize=CACHED_LONG_LINES)(_text)


def is_bar(text: str) -> bool:
    """Return True if a line is a state of a progress bar."""
    return _BAR.search(text) is not None


def is_bare_bar(text: str) -> bool:
    """Return True if a line ends with a whole progress bar whose description names no error.

    Collectors that take standard error for errors give such a line the level ERROR.
    """
    bar = _WHOLE_BAR.search(text)
    return bar is not None and not _TROUBLE.search(_LEVEL.sub("", text[: bar.start()], count=1))


def glued(line: bytes) -> int:
    """Return the start of a record written directly after a progress bar on its line; 0: none."""
    if b"%|" not in line and b"it]" not in line and b"/s" not in line and b"/it" not in line:
        return 0
    if line[:2] == b'{"' and line.rstrip()[-1:] == b"}":
        return 0  # a bar in a JSON record ends in its message
    end = 0
    for bar in _BAR_END.finditer(line):
        end = bar.end()
    return end


class Splitter(object):
    """Splits consecutive bytes into lines. Buffers at most one line of 16 KiB and one bar.

    A row is (offset of its first byte, offset after its line end, text). A record after a bar is a row of its
    own; of an overwritten bar only the last state is returned.
    """

    def __init__(self) -> None:
        self._start = 0
        self._kept = b""
        self._length = 0
        self._bar: tuple[int, int, str] | None = None
        self._held_cr = False
        self._secrets = SecretLines()

    def feed(self, data: bytes, offset: int) -> "list[tuple[int, int, str]]":
        """Return (start, end, text) of the rows that `data` completes; its first byte is at `offset`."""
        rows: list[tuple[int, int, str]] = []
        if not data:
            return rows
        if self._held_cr:
            data, offset = b"\r" + data, offset - 1
        self._held_cr = data[-1:] == b"\r"  # \n may follow
        stop = len(data) - self._held_cr
        at = 0
        if not self._length:
            self._start = offset
        for end in _LINE_ENDS.finditer(data, 0, stop):
            self._keep(data, at, end.start())
            self._close(rows, offset + end.end(), end.group() == b"\r")
            at = end.end()
        self._keep(data, at, stop)
        return rows

    def tail(self) -> "tuple[int, int, str] | None":
        """Return (start, end, text) of the unfinished line or of a bar's newest state, which stay.

        None: there is neither.
        """
        if self._length:
            return self._start, self._start + self._length, copy(self._secrets).masked(line_text(self._kept))
        return self._bar

    def forget(self) -> None:
        """Drop all buffered bytes, since the file was truncated or replaced."""
        self._kept, self._length, self._bar, self._held_cr = b"", 0, None, False
        self._secrets = SecretLines()

    def _keep(self, data: bytes, at: int, end: int) -> None:
        if len(self._kept) < MAX_LINE:
            self._kept += data[at : min(end, at + MAX_LINE - len(self._kept))]
        self._length += end - at

    def _close(self, rows: "list[tuple[int, int, str]]", end: int, overwritten: bool) -> None:
        start, line = self._start, self._kept
        self._start, self._kept, self._length = end, b"", 0
        cut = glued(line)
        if cut:
            rows.append((start, start + cut, line_text(line[:cut])))
            self._bar = None
            start, line = start + cut, line[cut:]
        text = self._secrets.masked(line_text(line))
        if is_bar(text):
            self._bar = (start, end, text)
            if not overwritten:
                self._land(rows)
        elif text.strip():
            self._land(rows)
            rows.append((start, end, text))
        elif not overwritten:
            if self._bar is not None:
                self._land(rows)
            else:
                rows.append((start, end, text))

    def _land(self, rows: "list[tuple[int, int, str]]") -> None:
        if self._bar is not None:
            rows.append(self._bar)
            self._bar = None
