"""The level that a JSON record of a logger states, in a field of its own."""

from ...patterns.module_pattern import pattern_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_NAMES = frozenset(
    ("level", "lvl", "loglevel", "levelname", "levelno", "levelnum", "levelnumber", "levelvalue")
)
"""Names of fields with a level, in lower case and of letters only: `log.level` is `loglevel`."""
_AMBIGUOUS = frozenset(("severity", "severitytext", "severitynumber", "priority", "status", "l"))
"""Names that other records use, too: with them a record is a logger's if it has a time or a message."""
_NUMBERED = frozenset(("levelno", "levelnum", "levelnumber", "levelvalue"))
"""Names of fields with Python's numbers of levels: 40 is an error there, a warning in those of Node.js."""
_UNNUMBERED = frozenset(("priority", "status", "l"))
"""Names whose numbers are no levels: HTTP's, a queue's."""
_LOGGED = frozenset(
    ("message", "msg", "log", "event", "body", "error", "err", "errors", "exception", "exc", "excinfo",
     "traceback", "stacktrace", "time", "ts", "timestamp", "asctime", "date", "datetime", "t", "created",
     "logger", "loggername", "caller")
)  # fmt: skip
"""Names of fields that loggers write: time, message, exception, source."""
_DATA = frozenset(
    ("prompt", "completion", "question", "answer", "instruction", "input", "output", "response", "label",
     "caption", "title", "choices", "messages", "conversations")
)  # fmt: skip
"""Names of fields of data, such as a dataset's rows."""
_INSIDE = ("log", "record", "jsonPayload", "fields", "attributes", "labels", "_source", "extra")
"""Nested objects that may have the record's level."""
_SEVERITIES = frozenset(("severity", "severitynumber"))
_SEVERITY_NUMBERS = (
    (600, "critical"), (500, "error"), (400, "warning"), (200, "info"), (100, "debug"),
    (21, "critical"), (17, "error"), (13, "warning"), (9, "info"), (1, "debug"),
)  # fmt: skip
"""Least number of each level in Google's Cloud Logging (from 100) and in OpenTelemetry (to 24)."""
_PYTHON = {10: "debug", 20: "info", 30: "warning", 40: "error", 50: "critical"}
_OTHER = pattern_of(r"[^a-z]+")
_WORD = pattern_of(r"(?:[A-Za-z]{1,20}[._])?([^\W\d_]{1,10})\s?$")
"""A level's word, which may have its type before it: `LogLevel.Error`."""
_LETTERS = {"e": "error", "f": "critical"}
MAX_FIELDS = 2000
"""Fields of a record that are looked at."""


def record_level(record: "dict[str, Any]", levels: "dict[str, str]") -> "str | None":
    """Return the level (`error`, ...) that a logger's record states; None: none, or it is no logger's.

    `levels`: level in lower case, or its number as text -> level.
    """
    own = _level_in(record, levels)
    if own is not None:
        return own
    nested = (record[name] for name in _INSIDE if isinstance(record.get(name), dict))
    return next(filter(None, (_level_in(each, levels) for each in nested)), None)


def _level_in(record: "dict[str, Any]", levels: "dict[str, str]") -> "str | None":
    named = [(_plain(name), value) for name, value in list(record.items())[:MAX_FIELDS]]
    names = {name for name, _ in named}
    is_logged = not names.isdisjoint(_LOGGED)
    for name, value in named:
        if name in _NAMES or (name in _AMBIGUOUS and is_logged):
            level = _level_of(name, value, levels)
            if level is not None:
                return level if is_logged or names.isdisjoint(_DATA) else None
    return None


def _plain(name: str) -> str:
    return _OTHER.sub("", name[:40].lower())


def _level_of(name: str, value: "Any", levels: "dict[str, str]") -> "str | None":
    if isinstance(value, dict):  # loguru's: name, number, icon
        value = value.get("name", value.get("no"))
    text = str(value)[:40] if isinstance(value, (str, int)) and not isinstance(value, bool) else ""
    if text.isdecimal():
        return _of_number(name, int(text), isinstance(value, str), levels)
    found = _WORD.match(text)
    word = "" if found is None else found.group(1).lower()
    return levels.get(word) or _LETTERS.get(word)


def _of_number(name: str, number: int, is_text: bool, levels: "dict[str, str]") -> "str | None":
    if name in _UNNUMBERED:
        return None
    if name in _SEVERITIES and (number <= 24 or number >= 100):
        return next((level for least, level in _SEVERITY_NUMBERS if number >= least), None)
    if name in _NUMBERED or (is_text and number == 40):  # Node.js writes numbers
        return _PYTHON.get(number)
    return levels.get(str(number))
