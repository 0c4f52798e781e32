"""Finds the lines that end Python tracebacks: the exception, whatever its name.

A traceback is its head, indented frames, and an unindented line of the same process below them. All of these
have the same prefix (`[rank3]: `, a logger's stamp, the margin of an exception group), or only the head
follows a logger's head.
"""

import re

from ..lines.normalise import messages
from ..lines.prefixes import differ
from ..lines.splitter import MAX_LINE, line_text
from ..lines.timestamps import time_of
from ..records.wanted_lines import WantedLines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..lines.prefixes import Speaker
    from .chunk import Chunk

HEAD = b"Traceback (most recent call last)"
FRAME = b'  File "'
MARKS = (HEAD, FRAME)
"""Texts of which data with a traceback contains at least one."""
MAX_BELOW = 400
"""Lines (of all processes) below the head that are searched for the exception."""
MAX_BELOW_FRAMES = 40
"""Most lines read below a traceback frame if the traceback's head is not in the file."""
MAX_OPEN = 512
"""Tracebacks of one file that continue in the next chunk."""

_FRAME = re.compile(rb"""[ \t]{1,20}File "[^"\r\n]{1,500}", line \d{1,9}""")
_HEADLESS = re.compile(rb""" {2}File "[^"\r\n]{1,500}", line \d{1,9}, in [^\r\n]""")
_NAMED_EXCEPTION = re.compile(
    rb"(?:[A-Za-z_]\w{0,60}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Timeout|Exit)\s{0,2}(?::|$)"
)
"""Name of an exception, required if the traceback's head is not in the file."""
_END = re.compile(rb"[\r\n]")
_ZEROS = bytes(48 if 48 <= c <= 57 else c for c in range(256))


class Traceback(object):
    """A traceback whose exception has not been read yet."""

    __slots__ = ("by", "framed", "headless", "left", "prefix", "prefixed")

    def __init__(self, prefix: bytes, by: "Speaker", headless: bool = False) -> None:
        self.prefix = prefix
        self.by = by
        self.headless = headless
        self.framed = headless
        self.prefixed = not prefix.strip()
        """True if its lines have the prefix of its head."""
        self.left = MAX_BELOW_FRAMES if headless else MAX_BELOW

    def take(self, line: bytes) -> "tuple[bool, str | None]":
        """Process the line after the last one.

        Return (True if no further line belongs to the traceback, text of its exception or None).
        """
        self.left -= 1
        size = len(self.prefix)
        alike = line[:size].translate(_ZEROS) == self.prefix.translate(_ZEROS)
        if not alike and self.prefixed:
            return self.left <= 0, None
        rest = line[size:] if alike else line
        body = rest[:1] in (b" ", b"\t", b"")
        if not (body and line.startswith(self.prefix)) and self._is_of_another(line, rest):
            return self.left <= 0, None
        if not body:
            ended = self.framed and (not self.headless or _NAMED_EXCEPTION.match(rest) is not None)
            return True, line_text(rest) if ended else None
        if _FRAME.match(rest):
            self.framed = True
            self.prefixed = self.prefixed or alike
            self.prefix = self.prefix if self.prefixed else b""
        return self.left <= 0, None

    def _is_of_another(self, line: bytes, rest: bytes) -> bool:
        """Return True if the line is not of this traceback: another process or a logger wrote it."""
        return differ(messages(line)[0][-1][1], self.by) or time_of(line_text(rest), 0.0) is not None


class TracebackEnds(object):
    """Finds the ends of tracebacks in one file. Pass all its chunks to `find`, in order."""

    def __init__(self) -> None:
        self.open: list[Traceback] = []
        """Tracebacks open at the end of the last chunk."""

    def copy(self) -> "TracebackEnds":
        """Return a copy, with which an unfinished line can be examined."""
        other = TracebackEnds()
        for each in self.open:
            again = Traceback(each.prefix, each.by, each.headless)
            again.framed, again.prefixed, again.left = each.framed, each.prefixed, each.left
            other.open.append(again)
        return other

    def find(self, chunk: "Chunk") -> "dict[int, str]":
        """Return start of a line -> its text after the prefix, for each line that ends a traceback."""
        found: dict[int, str] = {}
        frames: set[int] = set()
        still = [each for each in self.open if not _walk(chunk, 0, each, found, frames)]
        at = chunk.clean.find(HEAD)
        while at >= 0:
            start, end, _ = chunk.span(at)
            line = chunk.searched(start, end)
            if b'{"' in line[: line.find(HEAD)]:
                text = _in_record(line)
                if text is not None:
                    found[start] = text
            else:
                prefix = line[: at - start].replace(b"+ Exception Group ", b"| ")
                each = Traceback(prefix, messages(line)[0][-1][1])
                if not _walk(chunk, end + 1, each, found, frames):
                    still.append(each)
            at = chunk.clean.find(HEAD, max(end, at + len(HEAD)))
        still.extend(_headless(chunk, found, frames))
        self.open = still[-MAX_OPEN:]
        return found


def _headless(chunk: "Chunk", found: "dict[int, str]", frames: "set[int]") -> "list[Traceback]":
    """Find ends of tracebacks whose head is missing (`tail`, a rotation), and add them to `found`.

    Return the tracebacks that continue in the next chunk.
    """
    still = []
    at = chunk.clean.find(FRAME)
    while at >= 0:
        start, end = chunk.line_around(at)
        line = chunk.clean[start:end]
        frame = _HEADLESS.search(line) if start not in frames and b'{"' not in line else None
        if frame is not None:
            prefix = line[: frame.start()]
            each = Traceback(prefix, messages(line)[0][-1][1], True)
            if not _walk(chunk, end + 1, each, found, frames):
                still.append(each)
        at = chunk.clean.find(FRAME, max(end, at + len(FRAME)))
    return still


def _walk(chunk: "Chunk", start: int, each: "Traceback", found: "dict[int, str]", frames: "set[int]") -> bool:
    """Pass the lines from `start` on to a traceback; return True if it ends in this chunk.

    Its exception is added to `found`, the starts of lines with frames to `frames`.
    """
    clean = chunk.clean
    while start < len(clean):
        stop = _END.search(clean, start, start + MAX_LINE)
        end = stop.start() if stop is not None else min(len(clean), start + MAX_LINE)
        line = clean[start:end]
        if FRAME in line:
            frames.add(start)
        done, text = each.take(line)
        if text is not None:
            found[start] = text
        if done:
            return True
        start = end + 1
    return False


def _in_record(line: bytes) -> "str | None":
    """Return the exception of a traceback that is within one JSON record; None: there is none."""
    head, framed = False, False
    for text, _ in messages(line, wanted=WantedLines(_heads))[0]:
        if HEAD.decode("ascii") in text:
            head, framed = True, False
        elif head and text[:1] == " ":
            framed = framed or _FRAME.match(text.encode("utf-8", "replace")) is not None
        elif head and framed:
            return text
    return None


def _heads(data: bytes) -> "list[int]":
    at = data.find(HEAD)
    return [] if at < 0 else [at]
