"""Finds the rank of a line from its surroundings: its record, or the logger's line above a traceback."""

import re
from functools import lru_cache
from itertools import chain

from ..lines.levels import GRAVE, own_level
from ..lines.line_ranks import line_ranks, record_ranks
from ..lines.normalise import last_message, messages
from ..lines.prefixes import differ
from ..lines.splitter import line_text
from .text_form import IGNORED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Iterator

    from ..lines.line_ranks import LineRanks
    from ..lines.prefixes import Speaker
    from .candidate import CandidateLine
    from .chunk import Chunk

_HOST_HEAD = "[%s] "
MAX_ABOVE = 60
"""Lines of a traceback that are searched for its beginning."""
_DATED = re.compile(rb".{0,40}?(?:\d{4}[-/]\d\d[-/]\d\d|\d\d:\d\d:\d\d)")
"""A line that begins with a time of its own."""
_BEGIN = re.compile(r"Traceback \(most recent call last\)")
_LEAD = re.compile(
    r"(?:[\w.-]{1,80}(?: {1,20}\||:) ){1,2}(?=\s)|[a-z][\w.-]{1,80} [a-z][\w-]{1,40} (?=\s{2})"
    r"|[IWEF](?:20\d\d)?\d{4} [\d:.]{8,15} {1,7}\d{1,10} \S{1,120}:\d{1,6}\] |\[[A-Z]{4,8}\] "
    r"|(?:.{0,120}? |)- [A-Z]{4,8} - (?:[\w.]{1,60} - )?"
)
"""The text that launchers and loggers put before lines of a traceback, which they took for single records."""
_LOGGED = re.compile(r"\b(?:ERROR|CRITICAL|FATAL|EXCEPTION|WARNING)\b|exception|failed", re.IGNORECASE)


def read_around(chunk: "Chunk", line: "CandidateLine", text: str, by: "Speaker") -> "LineRanks":
    """Return the ranks that a line's message names, else those of the traceback or record around it.

    Without these, those in its host's name. If the prefix names the writer, only the message is read.
    """
    reading = _stated(text, by, line.data)
    known = by.rank is not None or by.local_rank is not None or by.task is not None
    if known or not reading.empty:
        return reading
    inside = line.stated[: next((n for n, (_, who) in enumerate(line.stated) if who is by), 0)]
    near = next(_upwards(chunk.above(line.start, 2), inside), None)
    found = None
    if near is not None and _depth(near[0]) > _depth(text):
        found = _of_traceback(_upwards(chunk.above(line.start, MAX_ABOVE), inside), by, _depth(text))
    elif near is not None and text[:1] not in (" ", "\t"):
        found = _of_record(chunk.above(line.start, 1), line.data, by)
    if found is None and by.host is not None:
        return line_ranks("[" + by.host + "] ")
    return found or reading


def _upwards(lines: "list[bytes]", inside: "list[tuple[str, Speaker]]") -> "Iterator[tuple[str, Speaker]]":
    """Yield the messages of a record and of the lines above it, nearest first.

    Lines whose prefix names their rank are left out, unless they begin a traceback or a logger wrote them.
    """
    for text, who in chain(reversed(inside), (last_message(raw) for raw in reversed(lines))):
        if who.rank is None or _BEGIN.search(text) or _LOGGED.search(text):
            yield text, who


def _depth(text: str) -> int:
    """Return the indentation of a traceback's frame, after any prefix of a launcher or logger."""
    lead = _LEAD.match(text)
    text = text[lead.end() if lead else 0 :]
    return len(text) - len(text.lstrip())


def read_message(text: str, by: "Speaker", raw: bytes) -> "LineRanks":
    """Return the ranks that a message names, else those in its JSON record `raw`, else in its host's name."""
    reading = _stated(text, by, raw)
    if reading.empty and by.host is not None and _states_rank(by.host):
        return line_ranks(_HOST_HEAD % by.host)
    return reading


@lru_cache(maxsize=1024)
def _states_rank(host: str) -> bool:
    return not line_ranks(_HOST_HEAD % host).empty


def _stated(text: str, by: "Speaker", raw: bytes) -> "LineRanks":
    reading = line_ranks(text)
    if reading.empty and b'{"' in raw:
        reading = record_ranks(line_text(raw))
    if reading.empty and by.task is not None:
        reading.take("task", by.task)
    return reading


def _of_record(lines: "list[bytes]", raw: bytes, by: "Speaker") -> "LineRanks | None":
    """Return the ranks of the error record that a line without a time continues; None: unknown."""
    above = lines[-1] if lines else b""
    if _DATED.match(above) is None or _DATED.match(raw) is not None:
        return None
    text, who = messages(above)[0][-1]
    if differ(who, by) or own_level(line_text(above)) not in GRAVE:
        return None
    reading = line_ranks(text)
    return None if reading.rank is None or reading.phrase else reading


def _of_traceback(lines: "Iterator[tuple[str, Speaker]]", by: "Speaker", depth: int) -> "LineRanks | None":
    """Return the ranks of the process that began the traceback which these lines end with; None: unknown.

    They are in its first line or in the logger's line above. Python itself writes the heading of an ignored
    exception, with every line below it: one with a tag is not above a traceback without.
    """
    begun = False
    for text, who in lines:
        if differ(who, by):
            continue
        if begun:
            logged = _LOGGED.search(text) is not None and not text.startswith(IGNORED)
            return _with_tag(text, who) if logged else None
        if _BEGIN.search(text) is not None:
            reading = _with_tag(text, who)
            if not reading.empty:
                return reading
            begun = True
        elif _depth(text) <= depth:
            return None
    return None


def _with_tag(text: str, by: "Speaker") -> "LineRanks":
    """Return the ranks in a line, whose tag may name the process: `r17@gpu-2 | ERROR | it died`."""
    reading = line_ranks(text)
    if reading.empty and by.rank is not None:
        reading.take("rank", by.rank)
    elif reading.empty and by.task is not None:
        reading.take("task", by.task)
    return reading
