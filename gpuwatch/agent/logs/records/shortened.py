"""JSON records with their long values cut."""

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MAX_VALUE = 200
"""Characters of a value that are kept."""
MAX_ROOM = 3000
"""Characters of all values, after which further ones are left out."""
FIRST_FIELDS = (
    "level", "severity", "levelname", "lvl", "time", "timestamp", "ts", "asctime", "@timestamp", "message",
    "msg", "log", "event", "body", "error",
)  # fmt: skip
"""Fields that come first in a summary: level, time and message are looked for near a line's beginning."""


def shortened(record: "Any") -> "Any":
    """Return a record with its long texts cut; beyond `MAX_ROOM` of each container the last value stays."""
    return _kept(record, [MAX_ROOM])


def summary(text: str) -> str:
    """Return a JSON object's text with long values cut, level and time first; other text as it is."""
    try:
        record = json.loads(text)
        if not isinstance(record, dict):
            return text
        ordered = sorted(
            record.items(), key=lambda item: (item[0].lower() not in FIRST_FIELDS, _size(item[1]))
        )
        return json.dumps(_kept(dict(ordered), [MAX_ROOM]), ensure_ascii=False)
    except (ValueError, RecursionError):
        return text


def _size(value: "Any") -> int:
    return min(len(value), MAX_VALUE) if isinstance(value, (str, list, dict)) else 0


def _kept(value: "Any", room: "list[int]") -> "Any":
    room[0] -= 4
    if isinstance(value, str):
        room[0] -= min(len(value), MAX_VALUE)
        return value[:MAX_VALUE]
    if isinstance(value, dict):
        named: dict[str, Any] = {}
        for index, (name, each) in enumerate(value.items()):
            if room[0] > 0 or index == len(value) - 1:
                room[0] -= len(name)
                named[name[:MAX_VALUE]] = _kept(each, room)
        return named
    if isinstance(value, list):
        return [
            _kept(each, room) for index, each in enumerate(value) if room[0] > 0 or index == len(value) - 1
        ]
    return value
