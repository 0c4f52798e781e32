"""Recognises gpuwatch's own output in a log: captured screens and reports repeat the lines of other logs."""

from ...patterns.module_pattern import pattern_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

SCREEN_HEAD = pattern_of(rb"(?m)^[^\w\n]{0,16}gpuwatch {2,}\S")
SCREEN_KEYS = pattern_of(rb"\? Help\b|\bq Quit\b|\besc [A-Z]")
"""First and last line of a screen of gpuwatch; a terminal's copy keeps both."""
MAX_SCREEN = 64 * 1024
"""Bytes of the largest screen: 160 lines of 400 cells, of which few are not ASCII."""
MAX_ROW = 1000
"""Bytes of a line that are searched for a sign and what follows it."""
MAX_REPORT = 120
"""Lines of a report above a line of it that are searched for the report's number and class."""
_VISIBLE = pattern_of(rb"[^\r\n]")
_AGE = rb"(?:\d{1,6}(?:\.\d)?(?:ms|[smhdw])|now)"
_SIGNS = (b"\xe2\x9c\x96", b"\xe2\x97\x86", b"\xe2\x96\xb2", b"\xe2\x97\x8f")
_CLOCK = rb"\d\d:\d\d:\d\d"
_STATE = rb"(?:firing|resolved|silenced|acknowledged(?: [\d-]{10})?(?: \d\d:\d\d)?) {1,16}"
_ROW = pattern_of(
    rb"(?: |\xe2\x96\x8c|\|){0,3}(?:"
    rb"#\d{1,6} {1,8}" + _AGE + rb"(?: ago| before the end)? "  # an incident of a list
    + rb"|" + _STATE + _AGE + rb"(?: {1,8}" + _AGE + rb")? {2}"  # an alert of a list
    + rb"|" + _CLOCK + rb" {1,4}[+-]\d{1,6}\.\ds "  # an event of a timeline
    + rb"|(?:rank \d{1,6} \(|\d{1,6} ranks|[\w.-]{1,80}(?: GPU \d{1,3})?: )[^\n]{1,400} " + _CLOCK
    + rb"(?:[ ;~]|\xe2\x80\xa6|$)"  # the banner: the sentence of an incident
    rb")"
)  # fmt: skip
"""A row of a screen, after its sign; another pane may stand at the sign's left."""
_ASCII_SIGN = pattern_of(rb" ?[Xx!o?](?=[ |>])")
_CODE = rb"[a-z][a-z0-9_]{1,40}(?:\.[a-z0-9_]{1,40}){0,4}"
_HEADLINE = pattern_of(rb"\d{1,4} {2}(?:CRITICAL|ERROR|WARNING|INFO) {2}\S")
_NUMBERED = pattern_of(rb"\d{1,4} {1,2}" + _CODE + rb"[ \t\r]{0,4}$")
_OUTSIDE = pattern_of(rb"(?:critical|error {3}|warning |info {4}) {2}" + _CODE + rb" {2}\S")
_INCIDENT = pattern_of(rb"(?:critical|error {3}|warning |info {4}) {2}incident: \S")
_LABELLED = pattern_of(rb"(?:critical|error {3}|warning |info {4}) {2}[^\n:]{1,200}: \S")
"""A problem in the output of `gpuwatch once`; below its first line."""
_ONCE_HEAD = pattern_of(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [^\n]{0,120} gpuwatch \d{1,3}\.\d")
MAX_ONCE = 400
"""Lines above a problem in the output of `gpuwatch once` that are searched for its first line."""
_SUMMARY = pattern_of(rb"[^\n]{0,200}?(?:\b\d{1,6} incidents?|\bno problem found) in \d{1,9} files? \(\d")
_INDENT = b"   "


def without_screens(raw: bytes) -> bytes:
    """Return the bytes with spaces in place of captured screens: each from its first to its last line."""
    if b"gpuwatch  " not in raw:
        return raw
    parts: list[bytes] = []
    done = 0
    for head in SCREEN_HEAD.finditer(raw):
        keys = SCREEN_KEYS.search(raw, head.end(), head.end() + MAX_SCREEN) if head.start() >= done else None
        if keys is not None:
            parts += [raw[done : head.start()], _VISIBLE.sub(b" ", raw[head.start() : keys.end()])]
            done = keys.end()
    return b"".join(parts) + raw[done:]


def is_own_line(line: bytes, above: "Callable[[int], list[bytes]]") -> bool:
    """Return True if a line is a row of a screen of gpuwatch, or a line of one of its reports.

    `above` returns up to a number of lines above it.
    """
    if _is_own(line[:MAX_ROW]) or (line.startswith(_INDENT) and _is_in_report(above(MAX_REPORT))):
        return True
    return _LABELLED.match(line) is not None and any(map(_ONCE_HEAD.search, above(MAX_ONCE)))


def foreign_lines(lines: "list[bytes]") -> "list[bytes]":
    """Return the lines of a log that are no rows of gpuwatch's screens, and not of its reports."""
    kept, in_report = [], False
    for line in lines:
        if not line.startswith(_INDENT):
            in_report = _begins_report(line)
        if not in_report and not _is_own(line[:MAX_ROW]):
            kept.append(line)
    return kept


def _is_own(line: bytes) -> bool:
    """Return True if a line shows by itself that gpuwatch wrote it."""
    if _INCIDENT.match(line) or _HEADLINE.match(line) or _OUTSIDE.match(line) or _SUMMARY.match(line):
        return True
    sign = _ASCII_SIGN.match(line)
    if sign is not None and _ROW.match(line, sign.end()):
        return True
    for each in _SIGNS:
        if each in line:
            for at in {line.find(each), line.rfind(each)}:
                if _ROW.match(line, at + len(each)):
                    return True
    return False


def _is_in_report(above: "list[bytes]") -> bool:
    """Return True if the first line above that is not indented begins a report."""
    for line in reversed(above):
        if not line.startswith(_INDENT):
            return _begins_report(line)
    return False


def _begins_report(line: bytes) -> bool:
    """Return True if a line is the number and class of a report's incident, or an alert outside of them."""
    return bool(_NUMBERED.match(line) or _OUTSIDE.match(line))
