"""Parses the time in a line, in the usual formats; in the node's time zone if it names none."""

import re
import time
from calendar import timegm
from contextlib import contextmanager

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Match

_MONTHS = {
    name: i + 1
    for i, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
    )
}
_OTHER_MONTHS = {
    name: i + 1
    for i, names in enumerate(
        [
            "jan ene gen янв oca sty", "fev fév feb фев şub lut", "mar mär mrt мар",
            "abr avr apr апр nis kwi", "mai mag may maj мая mei май", "juin giu jun июн haz cze",
            "juil lug jul июл tem lip", "aoû ago aug авг ağu sie", "set sep сен eyl wrz",
            "out ott okt oct окт eki paź", "nov ноя kas lis", "dez dic dec déc дек ara gru",
        ]
    )
    for name in names.split()
}  # fmt: skip
"""Month names of other languages, by their first three or four letters, as journalctl writes them."""
TIME_CHARS = 160
"""Characters at the start of a line that are searched for a time."""

_CLOCK = r"(?P<{0}H>\d\d):(?P<{0}M>\d\d):(?P<{0}S>\d\d)"
_MONTH = r"(?P<{0}m>Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_ZONE = r"\s?(?P<{0}z>Z\b|UTC\b|GMT\b|[+-]\d\d:?\d\d(?!\d))?"
_STAMP = re.compile(
    r"(?P<iso>(?P<y>20\d\d)[-/](?P<m>\d\d)[-/](?P<d>\d\d)[T _-]"
    + _CLOCK.format("")
    + r"(?P<f>[.,]\d{1,9})?"
    + _ZONE.format("")
    + r")"
    r"|(?P<bgl>(?P<ly>20\d\d)-(?P<lm>\d\d)-(?P<ld>\d\d)-(?P<lH>\d\d)\.(?P<lM>\d\d)\.(?P<lS>\d\d)"
    r"(?P<lf>\.\d{1,9})?)"
    r"|\b(?P<glog>[IWEFC](?P<gy>20\d\d)?(?P<gm>\d{1,2}?)(?P<gd>\d\d) "
    + _CLOCK.format("g")
    + r"(?P<gf>\.\d{1,9}))"
    r"|\b(?P<dmesg>(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun) "
    + _MONTH.format("b")
    + r" (?P<bd>[ \d]?\d) "
    + _CLOCK.format("b")
    + r"(?: (?P<bz>UTC|GMT))?(?: [A-Z]{3,4})? (?P<by>20\d\d))\b"
    r"|\b(?P<sys>"
    + _MONTH.format("s")
    + r" {1,2}(?P<sd>\d{1,2}) (?:(?P<sy>20\d\d) )?"
    + _CLOCK.format("s")
    + r"(?P<sf>[.,]\d{1,9})?)\b"
    r"|\[(?P<web>(?P<wd>\d\d)/"
    + _MONTH.format("w")
    + r"/(?P<wy>20\d\d):"
    + _CLOCK.format("w")
    + _ZONE.format("w")
    + r")\]"
    r"|(?<![\d/-])(?P<us>(?P<um>\d\d)[/-](?P<ud>\d\d)[/-](?P<uy>20\d\d) "
    + _CLOCK.format("u")
    + r"(?P<uf>[.,]\d{1,6})?)"
    r"|(?<![\d.])(?P<eu>(?P<ed>\d\d)\.(?P<em>\d\d)\.(?P<ey>20\d\d),?[ T]"
    + _CLOCK.format("e")
    + r"(?P<ef>[.,]\d{1,9})?)"
    r"|^(?P<local>(?P<om>\d{1,2}[月월]|[^\W\d_]{3,5}\.?) {1,2}(?P<od>\d{1,2}) "
    + _CLOCK.format("o")
    + r"(?P<of>[.,]\d{1,9})?)\b"
    r"|(?<![\d:.-])(?P<vllm>(?P<vm>\d\d)(?:-|(?<=\[\d\d)/)(?P<vd>\d\d) "
    + _CLOCK.format("v")
    + r"(?P<vf>[.,]\d{1,6})?)(?=[ \]])"
    r"|(?:^(?:[-A-Z_]{1,12} )?|^\d{1,5}: |\[|\]: ?|\b(?:ts?|time)=)"
    r"(?P<unix>1[4-9]\d{8}(?:\.\d{1,9}|\d{3})?)(?=[\] :]|$)"
)
_JSON = re.compile(
    r'"(?:time|timestamp|ts|@timestamp|asctime|t|datetime|eventTime|__REALTIME_TIMESTAMP)"\s{0,4}:\s{0,4}'
    r'(?:"(?P<text>[^"]{10,40})"|(?P<number>1\d{9,18}(?:\.\d{1,9})?)(?=[,}\s]))'
)
_PREFIX = {
    "iso": "", "bgl": "l", "glog": "g", "dmesg": "b", "sys": "s", "web": "w", "us": "u", "vllm": "v",
    "eu": "e", "local": "o",
}  # fmt: skip
_CLOCK_OR_SECONDS = re.compile(r"\d\d[:.]\d\d[:.]\d\d|1[4-9]\d{8}")
"""The part that every time has; searched first, because most texts without a time have no digits."""
_DAY_OR_SECONDS = re.compile(
    r"20\d\d|[IWEFC]\d{3}|1[4-9]\d{8}|\d\d[-/]\d\d \d\d:"
    r"|(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) |^(?:\d{1,2}[月월]|[^\W\d_]{3,5}\.?) "
)
"""The same for the date; a progress bar has a clock alone."""
_DIGIT = re.compile(rb"[0-9\x80-\xff]")
_LOCAL = re.compile(
    rb"(?:\[[A-Za-z_ ]{0,12}\d{1,6}\]:?)?[ -/:-z|}~]{0,60}(20\d\d-\d\d-\d\d)[T _](\d\d):\d\d:\d\d"
    rb"(?:[.,]\d{1,9})?(?=[ \])|]|$)(?!\s?(?:Z|UTC|GMT|[+-]\d))"
)
"""An ISO time without a zone, preceded by no digit but a tag's: `time_of` reads it in a line without JSON."""
EARLY = b"02"
"""In hours before this one the day may last over 24 h more: a clock change adds an hour."""
_NAMES = frozenset(_STAMP.groupindex)
_DAY = 86400.0
_DAY_FIRST = [False]
"""Whether `09/11/2026` is in November; an agent knows no files that show it, a scan may."""


@contextmanager
def day_first(is_first: bool) -> "Iterator[None]":
    """Read dates of two small numbers (`09/11/2026`) with the day first inside the `with` block, if so."""
    before, _DAY_FIRST[0] = _DAY_FIRST[0], is_first
    try:
        yield
    finally:
        _DAY_FIRST[0] = before


def may_have_time(line: bytes) -> bool:
    """Return True if a line has a digit, as every time has."""
    return _DIGIT.search(line) is not None


def local_day(line: bytes) -> "tuple[bytes, bytes] | None":
    """Return (date, hour) of a line that begins with an ISO time without a zone, else None."""
    found = _LOCAL.match(line)
    return None if found is None or b'{"' in line else (found.group(1), found.group(2))


def time_of(text: str, arrived: float) -> "float | None":
    """Return the line's own time in unix seconds, or None.

    A missing year is the newest one that puts the time at most a day after `arrived`.
    """
    record = _JSON.search(text) if '{"' in text[:TIME_CHARS] else None
    if record is not None:
        if record.group("number"):
            return _epoch(record.group("number"))
        text = record.group("text")
        if text.isdecimal():
            return _epoch(text)
    is_dated = _CLOCK_OR_SECONDS.search(text, 0, TIME_CHARS) and _DAY_OR_SECONDS.search(text, 0, TIME_CHARS)
    found = _STAMP.search(text, 0, TIME_CHARS) if is_dated else None
    if found is None:
        return None
    kind = found.lastgroup  # the whole time: it ends after its parts
    if kind == "unix":
        return _epoch(found.group("unix"))
    part = _PREFIX[kind]  # type: ignore[index]  # every match is of one form
    month = found.group(part + "m")
    number = _MONTHS.get(month) or _month(month)
    day, hour, minute, second = map(int, found.group(part + "d", part + "H", part + "M", part + "S"))
    if kind == "us" and day <= 12 and (number > 12 or _DAY_FIRST[0]):
        number, day = day, number
    clock = (number, day, hour, minute, second)
    after_point = _optional(found, part + "f")
    fraction = float("0." + after_point[1:]) if after_point else 0.0
    year = _optional(found, part + "y")
    if not 1 <= number <= 12 or not 1 <= day <= 31 or hour > 23 or minute > 59 or second > 60:
        return None
    if year is not None:
        return _seconds(int(year), clock, _optional(found, part + "z")) + fraction
    return _nearest(clock, arrived) + fraction


def _optional(found: "Match[str]", name: str) -> "str | None":
    """Return the text of a named group; None if it did not match, or the form of time has no such group."""
    return found.group(name) if name in _NAMES else None


def _month(text: str) -> int:
    """Return the month that a text names: as a number (unchecked), or a name in another language; else 0."""
    text = text.rstrip("月월")
    if text.isdecimal():
        return int(text)
    text = text.lower()
    return _OTHER_MONTHS.get(text[:4]) or _OTHER_MONTHS.get(text[:3]) or 0


def _epoch(digits: str) -> float:
    """Return unix seconds for digits that count seconds, milliseconds, microseconds or nanoseconds."""
    whole, _, _ = digits.partition(".")
    return float(digits) / float(10 ** (len(whole) - 10))


def _nearest(clock: "tuple[int, int, int, int, int]", arrived: float) -> float:
    year = time.localtime(arrived).tm_year
    at = _seconds(year, clock, None)
    return at if at <= arrived + _DAY else _seconds(year - 1, clock, None)


def _seconds(year: int, clock: "tuple[int, int, int, int, int]", zone: "str | None") -> float:
    if zone is None:
        return time.mktime((year,) + clock + (0, 0, -1))
    at = timegm((year,) + clock + (0, 0, 0))
    if zone[0] in "+-":
        digits = zone[1:].replace(":", "")
        shift = int(digits[:2]) * 3600 + int(digits[2:]) * 60
        at -= shift if zone[0] == "+" else -shift
    return float(at)
