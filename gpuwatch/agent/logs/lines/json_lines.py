"""Extracts the message from lines that are JSON objects (structured loggers, container runtimes).

Only the logger's message counts, not every field: prompts, completions and settings are data.
"""

import json
import re

from ...patterns.module_pattern import pattern_of
from ..records.byte_lists import text_of_bytes
from ..records.nested_texts import nested_texts
from ..records.record_levels import record_level
from ..records.wanted_lines import MAX_LINES
from .levels import GRAVE, LEVELS
from .programs import program_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..records.wanted_lines import WantedLines
    from .prefixes import Speaker

MAX_PREFIX_CHARS = 200
"""Most characters of prefixes before the JSON object of a line."""

_MESSAGES = (
    "message", "msg", "log", "MESSAGE", "@message", "textPayload", "body", "event", "Message", "M", "line",
    "stringValue",
)  # fmt: skip
_STREAMS = ("stdout", "stderr")
_LISTED_FIELDS = ("text", *_MESSAGES, "data", "output", "content", "stdout", "stderr")
"""Fields whose list of texts is the message of a record with a level."""
_OUTPUTS = ("log", "data", "line", "output", "text", "content", "chunk")
"""Fields with a process's output, in a record that names its stream."""
EXCEPTION = pattern_of(
    r"(?i)(?:(?:error|exception)\.)?(?:exc|err|error|exc_?(?:info|text)|exception|traceback|tb|backtrace|stack_?trace|stack"
    r"|(?:error|exception)[_.]?(?:message|msg|detail)s?|E|failure|reason|cause|py_callstack)$"
)
"""Names of fields that hold an exception or a reason."""
OUTCOMES = (
    "exit_code", "exitCode", "exitcode", "exit_status", "returncode", "return_code", "wait_status", "signal",
    "oom_killed", "OOMKilled", "cgroup_oom_kill",
)  # fmt: skip
"""Fields with the result of a process: a supervisor's message is only `worker exited`."""
MAX_OUTCOME = 80
"""Most characters of a value that is shown as the outcome of a JSON record."""
_INSIDE = (
    "record", "jsonPayload", "body", "fields", "attributes", "extra", "kubernetes", "_source", "message",
    "extraInfo", "labels",
)  # fmt: skip
"""Nested objects with further fields of the record; `message` and `extraInfo` are of
torchelastic's error file, `labels` of a log service's export."""
_RANKS = ("rank", "global_rank", "RANK", "rang", "rango", "ранг")
_LOCAL_RANKS = ("local_rank", "LOCAL_RANK")
_HOSTS = (
    "hostname", "host", "node", "node_name", "_HOSTNAME", "HOSTNAME", "knoten", "rechner", "noeud",
    "nodo", "узел", "pod_node_name", "host.name",
)  # fmt: skip
_LOOKED_INTO = (*GRAVE, "warning")
"""Levels of records whose texts are read under any name."""
_LEVEL_NAMES = ("level", "severity", "levelname", "lvl")
_PROGRAMS = ("SYSLOG_IDENTIFIER", "_COMM", "syslog_identifier")

MAX_HOST = 255
"""Characters of a host name (RFC 1035: 253); a longer value names none."""

_BEGIN = pattern_of(r'\{\s{0,4}"')
_LINES = pattern_of(r"[\r\n]+")
_TIME = pattern_of(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d")
_LEVEL = pattern_of(r"[^\W\d_]{2,12}$")
_ESCAPE = pattern_of(rb'\\(?:u[0-9a-fA-F]{4}|[nrtbf/"\\])')
_HALF_CHARACTER = pattern_of(r"[\ud800-\udfff]")
"""Half of a character, as in `"\\ud83d"` of a record that was cut: it cannot be sent."""
_ONE_CHARACTER_ESCAPES = {b"\\" + bytes([c]): b" " + bytes([c]) for c in b'"/\\'}


def object_at(text: str) -> int:
    """Return where the JSON object starts that fills the rest of a line; -1: there is none."""
    if text.rstrip()[-1:] != "}":
        return -1
    found = _BEGIN.search(text, 0, MAX_PREFIX_CHARS)
    return found.start() if found else -1


def is_object(text: str) -> bool:
    """Return True if a line has the form `{"...}` of a JSON object, which has values, not lines of ranks."""
    return text[:2] == '{"' and text.rstrip()[-1:] == "}"


def texts_of(text: str, speaker: "Speaker", wanted: "WantedLines | None" = None) -> "list[str]":
    """Return message and exception of a JSON record, line by line; empty if it is no logger's record.

    Ranks, host and program that the record names are set in `speaker`. `wanted`: what is read of records
    of many lines; None: the first and last lines.
    """
    lines = [_HALF_CHARACTER.sub("\ufffd", each) for each in _texts_of(text, speaker)]
    if len(lines) <= MAX_LINES:
        return lines
    half = MAX_LINES // 2  # an exception ends its traceback
    inside = [] if wanted is None else wanted.of(lines[half:-half])
    return lines[:half] + inside + lines[-half:]


def _texts_of(text: str, speaker: "Speaker") -> "list[str]":
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return []
    if not isinstance(record, dict):
        return []
    event = _kubernetes_event(record)
    if event is not None:
        return [event]
    failure = _worker_failure(record)
    if failure is not None:
        _name_speaker(record["metadata"], speaker)
        return [line for line in _LINES.split(failure) if line.strip()]
    if isinstance(record.get("MESSAGE"), list):
        record["MESSAGE"] = text_of_bytes(record["MESSAGE"])
    parts = [record]
    for part in parts:
        parts.extend(part[name] for name in _INSIDE if isinstance(part.get(name), dict))
    level = speaker.level = record_level(record, LEVELS) or speaker.level
    message = _captured(record) or _first(parts, _MESSAGES, str) or _with_level(record, level)
    if message is None:
        texts = _of_error(record, parts) if level in _LOOKED_INTO else _foreign(record)
        texts = texts or ([text] if level in GRAVE else [])
        if texts:
            _name_speaker(record, speaker)
    else:
        texts = [message + _outcome(parts), *_exceptions(parts, level in GRAVE)]
        for part in parts:
            _name_speaker(part, speaker)
    return [line for each in texts for line in _LINES.split(each) if line.strip()]


def _with_level(record: "dict[str, Any]", level: "str | None") -> "str | None":
    """Return the field `text` of a record with a level, else the lines of a list in it.

    None: it has neither, or no level, so that its lines are data.
    """
    if level is None and not any(name in record for name in _LEVEL_NAMES):
        return None
    text = record.get("text")
    listed = (_text(record[name]) for name in _LISTED_FIELDS if isinstance(record.get(name), list))
    return text if isinstance(text, str) else next(filter(None, listed), None)


def _of_error(record: "dict[str, Any]", parts: "list[dict[str, Any]]") -> "list[str]":
    """Return the texts of an error's record without a message: under any name, at any depth."""
    others = [
        value
        for name, value in record.items()
        if not EXCEPTION.match(name) and not (isinstance(value, str) and _TIME.match(value))
    ]
    return nested_texts(others) + _exceptions(parts, True)


def _exceptions(parts: "list[dict[str, Any]]", is_grave: bool) -> "list[str]":
    """Return the exceptions of a record; of an error's record (`is_grave`), those in any form."""
    values = [value for part in parts for name, value in part.items() if EXCEPTION.match(name)]
    texts = [_text(value) for value in values]
    if is_grave:
        inside = ["\n".join(nested_texts(value)) for value in values]
        texts = [each if " " in each else more or each for each, more in zip(texts, inside)]  # noqa: B905 - Python 3.6
    return [each for each in texts if each]


def _kubernetes_event(record: "dict[str, Any]") -> "str | None":
    """Return a record of a Kubernetes event as a line of `kubectl get events`; None: it is no event."""
    about = record.get("involvedObject") or record.get("regarding")
    reason, message = record.get("reason"), record.get("message") or record.get("note")
    if not isinstance(about, dict) or not isinstance(reason, str):
        return None
    name = "{}/{}".format(str(about.get("kind")).lower(), about.get("name"))
    return "{}  {}  {}  {}".format(record.get("type"), reason, name, message)


def _worker_failure(record: "dict[str, Any]") -> "str | None":
    """Return the error in torchelastic's record of a failed worker; None: it is none, or states no error."""
    metadata = record.get("metadata")
    if record.get("name") != "torchelastic.worker.status.FAILED" or not isinstance(metadata, dict):
        return None
    try:
        error = json.loads(metadata.get("raw_error") or "{}")
    except (ValueError, TypeError, RecursionError):
        return None
    message = error.get("message") if isinstance(error, dict) else None
    message = message.get("message") if isinstance(message, dict) else message
    return "CRITICAL " + message if isinstance(message, str) and message != "<NONE>" else None


def _captured(record: "dict[str, Any]") -> "str | None":
    """Return a process's output from a launcher's or runtime's record.

    None: no field names the stream, or has the output.
    """
    if not any(value in _STREAMS for value in record.values() if isinstance(value, str)):
        return None
    return _first([record], _OUTPUTS, str)  # type: ignore[no-any-return]  # `_first` returns what its third argument is


def _foreign(record: "dict[str, Any]") -> "list[str]":
    """Return the texts of a logger's record with field names in another language; else empty.

    Such a record is recognised by a time and a level (one word in capitals).
    """
    values = [value for value in record.values() if isinstance(value, str)]
    level = next((each for each in values if _LEVEL.match(each) and each == each.upper()), None)
    if level is None or not any(_TIME.match(each) for each in values):
        return []
    return [each for each in values if " " in each.strip() and not _TIME.match(each)]


def _outcome(parts: "list[dict[str, Any]]") -> str:
    """Return the result of a process as ` exit_code=137`, to append to the message; empty if it has none.

    Fields that are empty or 0 are left out.
    """
    found = [(name, part[name]) for part in parts for name in OUTCOMES if name in part]
    reported = [
        "{}={}".format(name, str(value)[:MAX_OUTCOME])
        for name, value in found
        if isinstance(value, (str, int)) and value and value != "0"
    ]
    return " " + " ".join(reported) if reported else ""


def has_escapes(data: bytes) -> bool:
    """Return True if the data may contain JSON lines with escapes, which `unescaped` resolves."""
    return b"\\" in data and b'{"' in data


def unescaped(data: bytes) -> bytes:
    """Return data of the same length with JSON escapes replaced by characters and blanks.

    It is for word searches.
    """
    return _ESCAPE.sub(_plain, data)


def escaped(text: bytes) -> "list[bytes]":
    """Return other forms of a text: those that it has in JSON lines that went through `unescaped`."""
    plain = text.decode("utf-8")
    forms = {unescaped(each.encode("ascii")) for each in (json.dumps(plain)[1:-1], _of_go(plain))}
    forms.add(unescaped(json.dumps(plain, ensure_ascii=False)[1:-1].encode("utf-8")))
    return sorted(forms - {text})


def _of_go(text: str) -> str:
    """Return a text with the JSON escapes that Docker and Kubernetes (Go) use."""
    quoted = json.dumps(text)[1:-1]
    for sign in "<>&":
        quoted = quoted.replace(sign, "\\u{:04x}".format(ord(sign)))
    return quoted


def _plain(found: "re.Match[bytes]") -> bytes:
    escape = found.group()
    if len(escape) == 2:
        return _ONE_CHARACTER_ESCAPES.get(escape, b"  ")
    code = int(escape[2:], 16)
    if code < 32 or 0xD800 <= code < 0xE000:  # a control character, half of a pair
        return b"      "
    return chr(code).encode("utf-8").rjust(6)


def _first(parts: "list[dict[str, Any]]", names: "tuple[str, ...]", kind: type) -> "Any":
    for part in parts:
        for name in names:
            value = part.get(name)
            if isinstance(value, kind) and not isinstance(value, bool):
                return value
    return None


def _name_speaker(part: "dict[str, Any]", speaker: "Speaker") -> None:
    rank, local = _number(part, _RANKS), _number(part, _LOCAL_RANKS)
    host, program = _first([part], _HOSTS, str), _first([part], _PROGRAMS, str)
    speaker.rank = speaker.rank if rank is None else rank
    speaker.local_rank = speaker.local_rank if local is None else local
    if host and len(host) <= MAX_HOST:
        speaker.host = _HALF_CHARACTER.sub("\ufffd", host)
    speaker.program = program_of(program) if program else speaker.program


def _number(part: "dict[str, Any]", names: "tuple[str, ...]") -> "int | None":
    for name in names:
        value = part.get(name)
        if isinstance(value, str) and value.isdecimal() and len(value) < 10:
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**6:
            return value
    return None


def _text(value: "Any") -> str:
    """Return an exception in a JSON record as text; empty for values of other forms.

    It may be a text, a list of lines, or an object with type and message.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(each for each in value if isinstance(each, str))
    if isinstance(value, dict):
        kind = _first([value], ("type", "class", "name", "kind"), str)
        what = _first([value], ("message", "value", "msg", "reason"), str)
        head = ": ".join(each for each in (kind, what) if each)
        return "\n".join(each for each in (_text(value.get("traceback", value.get("stack"))), head) if each)
    return ""
