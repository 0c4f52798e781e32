"""Finds the records of a parsed document that state a failure, with node, rank, time and exit code. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from msgspec.structs import replace

from gpuwatch.runs.files.exports import status_words as words
from gpuwatch.runs.files.exports.stated_place import (
    StatedPlace,
    facts_of,
    placed,
    time_of_value,
)
from gpuwatch.runs.model.pod_rank import ranks_by_index

MAX_DEPTH = 24
MAX_REPORTS = 64
"""Most failures that are reported of one document."""
MAX_RECORDS = 20_000
"""Most records of one document that are examined."""
MAX_TEXT, MAX_STATE = 600, 200
MAX_INNER = 3
"""Levels of objects in which a message may be."""
MAX_OBJECT = 1 << 16
"""Most characters of an object that is given as text."""
MAX_VALUES = 4
"""Most texts of reasons, and of details, by which the deciding line is searched."""
_KEY = re.compile(r"[ _.-]")
_WHOLE = re.compile(r"-?\d{1,10}")
MAX_SIGNAL = 64
STOPPED = ("stopped", "exited", "terminated", "shutting-down", "deprovisioning")
"""States of an ended task for which the reason decides whether it failed."""


@dataclass(frozen=True)
class StatedFailure:
    """One failure that a document states."""

    place: StatedPlace
    state: str
    exit_code: int | None
    signal: int | None
    reasons: tuple[str, ...] = ()
    waiting: bool = False
    oom_killed: bool = False
    values: tuple[str, ...] = field(default=(), compare=False)
    """Texts by which the deciding line of the document is found, best first."""


def reports(document: Any) -> list[StatedFailure]:  # noqa: ANN401 - of JSON
    """Return up to `MAX_REPORTS` different failures that a document states; empty if it states none."""
    found: list[StatedFailure] = []
    for report in _walk(document, StatedPlace(), 0, [MAX_RECORDS]):
        if report not in found:
            found.append(report)
        if len(found) >= MAX_REPORTS:
            break
    return found


def _walk(
    value: Any,  # noqa: ANN401 - of JSON
    above: StatedPlace,
    depth: int,
    left: list[int],
) -> Iterator[StatedFailure]:
    """Yield the failures in a part of a document; `left[0]`: how many more records may be examined."""
    if depth > MAX_DEPTH or left[0] <= 0:
        return
    if isinstance(value, list):
        some = value[: left[0]]
        indexed = ranks_by_index([facts_of(each).index for each in some if isinstance(each, dict)])
        for each in _not_made_good(some):
            yield from _walk(each, replace(above, listed=True, indexed=indexed), depth + 1, left)
    if not isinstance(value, dict):
        return
    left[0] -= 1
    record = _by_plain_key(value)
    if _is_on_purpose(record):
        return
    above = replace(
        above, of_job=above.of_job or ((above.listed or not depth) and bool(words.EXIT & record.keys()))
    )
    place, state = replace(placed(record, above, value), listed=False, indexed=False), _state(record)
    own = _taken(record, place)
    good = own is None and _is_good(record, state)
    if good and not words.ENDED.match(state):
        return  # failures inside a good record are over
    below = (report for each in _inner(record, ended=good) for report in _walk(each, place, depth + 1, left))
    inner = list(islice(below, MAX_REPORTS))
    if good:
        yield from (each for each in inner if words.FAILED.match(each.state) and each.exit_code)
        return
    if any(each.exit_code for each in inner):  # a container's end is more specific than its wait
        inner = [each for each in inner if each.exit_code or not _is_crash_loop(each)]
    own = own or _report(record, place, state)
    if own is not None and not _is_repeated(own, inner):
        yield own
    yield from inner


def _by_plain_key(record: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the values by their keys in lower case, without separators: `exit_code` is `exitcode`."""
    return {_KEY.sub("", str(key)).lower(): each for key, each in record.items()}


def _is_crash_loop(failure: StatedFailure) -> bool:
    return any(words.CRASH_LOOP.fullmatch(each) for each in failure.reasons)


def _not_made_good(records: list[Any]) -> Iterator[Any]:
    """Yield the records of a list; a failed one is left out if a later one of the same name ended well."""
    parts = [(_by_plain_key(record), record) for record in records if isinstance(record, dict)]
    ends: dict[tuple[str, bool], datetime] = {}
    for record, _ in parts:
        end = _ended_at(record) if _is_good(record, _state(record)) else None
        if end is not None:
            key = _name_and_clock(record, end)
            ends[key] = max(end, ends.get(key, end))
    for record, raw in parts:
        at = _ended_at(record)
        if at is None or ends.get(_name_and_clock(record, at), at) <= at:
            yield raw
    yield from (each for each in records if not isinstance(each, dict))


def _ended_at(record: Mapping[str, Any]) -> datetime | None:
    inside = record.get("time")
    times = inside if isinstance(inside, dict) else record
    return next((at for key in words.TIME if (at := time_of_value(times.get(key))) is not None), None)


def _name_and_clock(record: Mapping[str, Any], at: datetime) -> tuple[str, bool]:
    """Return the name of a record, and True if its time has no zone.

    Only records that agree in both are compared.
    """
    return str(record.get("name", "")), at.tzinfo is None


def _is_on_purpose(record: Mapping[str, Any]) -> bool:
    """Return True if a person, or the service that the task belongs to, requested the end."""
    texts = [_message(record[key]) for key in record if key in words.REASON or key in words.DETAIL]
    return any(words.ON_PURPOSE.search(text) for text in texts)


def _is_repeated(own: StatedFailure, inner: list[StatedFailure]) -> bool:
    """Return True if a record states no more than the records within it."""
    stated = {reason for each in inner for reason in each.reasons}
    return bool(inner) and all(reason in stated for reason in own.reasons)


def _inner(record: Mapping[str, Any], *, ended: bool) -> Iterator[Any]:
    """Yield the objects and lists in a record, other than environments and specifications.

    A container's earlier end is included only if the container waits for a restart. `ended`: leave out all
    earlier attempts.
    """
    for key, each in record.items():
        if ended and key in words.EARLIER:
            continue
        earlier = key == "laststate" and not (
            isinstance(record.get("state"), dict) and "waiting" in record["state"]
        )
        if key not in ("env", "environment", "spec") and not earlier and isinstance(each, (dict, list)):
            yield each


def _taken(record: Mapping[str, Any], place: StatedPlace) -> StatedFailure | None:
    """Return the failure "machine taken away" from a record of a cloud's operations, or None."""
    named = [
        str(record[key]) for key in words.stated(words.OPERATION, record) if isinstance(record[key], str)
    ]
    found = next((each for each in named if words.TAKEN.search(each)), None)
    if found is None:
        return None
    details, raw = _reasons(record, words.DETAIL)
    key = next(key for key in words.stated(words.OPERATION, record) if record[key] == found)
    found = f"{words.OPERATION_NAMES.get(key, key)}: {found}"
    return StatedFailure(place, "taken", None, None, (found, *details), values=(found, *raw))


def _report(record: Mapping[str, Any], place: StatedPlace, state: str) -> StatedFailure | None:
    code, signal = _exit(record)
    reasons, values = _reasons(record, words.REASON)
    details, more = _reasons(record, words.DETAIL)
    killed = any(str(record.get(key)).lower() == "true" for key in words.OUT_OF_MEMORY)
    says_so = str(record.get("failed")).lower() == "true"
    failed = bool(words.FAILED.match(state)) or says_so or killed or _condition(record)
    if code == 0 and not failed:
        return None
    failed = failed or any(key in words.FAILURE_REASON and _message(record[key]) for key in record)
    failed = failed or bool(code) or bool(signal) or any(words.CRASH_LOOP.fullmatch(each) for each in reasons)
    stated = tuple(dict.fromkeys([*reasons, *details]))
    waiting = not failed and bool(reasons) and (bool(words.WAITING.match(state)) or _waits(record))
    stopped = not failed and bool(reasons) and state.lower() in STOPPED
    if not (failed or waiting or stopped) or not (place.of_job or isinstance(record.get("error"), dict)):
        return None
    texts = (*values[:MAX_VALUES], *more[:MAX_VALUES], *([f"{code}"] if code else []), state)
    return StatedFailure(place, state, code or None, signal, stated, waiting, killed, texts)


def _state(record: Mapping[str, Any]) -> str:
    """Return the state in a record: a known state, else the first that has a text; empty: none."""
    for key in words.stated(words.STATE, record):
        text = _word(record[key])
        if text and (words.FAILED.match(text) or words.GOOD.match(text) or words.WAITING.match(text)):
            return text
    return next((text for key in words.stated(words.STATE, record) if (text := _word(record[key]))), "")


def _word(value: Any) -> str:  # noqa: ANN401 - of JSON
    """Return a state as text; `value` is a text, a list of flags, or an object with a name. Empty: none."""
    if isinstance(value, str):
        return value.strip()[:MAX_STATE]
    if isinstance(value, list):
        flags = [each for each in value if isinstance(each, str)]
        return next((each for each in flags if words.FAILED.match(each)), flags[0] if flags else "")
    if isinstance(value, dict):
        return next(
            (_word(value[key]) for key in ("current", "name", "Name", "phase", "value") if key in value), ""
        )
    return ""


def _is_good(record: Mapping[str, Any], state: str) -> bool:
    """Return True if a record ended well or is running."""
    status = record.get("status")
    inside = _by_plain_key(status) if isinstance(status, dict) else record
    phase = inside.get("phase")
    if isinstance(phase, str) and words.GOOD.match(phase):
        return words.CRASH_LOOP.search(str(inside.get("containerstatuses"))) is None
    ended = inside.get("conditions")
    ended_well = isinstance(ended, list) and any(
        isinstance(each, dict)
        and str(each.get("type", "")).lower() in words.CONDITIONS_OF_SUCCESS
        and str(each.get("status", "")).lower() == "true"
        for each in ended
    )
    return ended_well or bool(words.GOOD.match(state))


def _condition(record: Mapping[str, Any]) -> bool:
    """Return True if a record is a Kubernetes condition that reports a failure."""
    kind, holds = str(record.get("type", "")).lower(), str(record.get("status", "")).lower()
    if kind in words.CONDITIONS_OF_FAILURE:
        return holds == "true"
    return (
        kind in words.CONDITIONS_OF_NODE and holds in ("false", "unknown") and "lastheartbeattime" in record
    )


def _waits(record: Mapping[str, Any]) -> bool:
    """Return True if a record is a Kubernetes condition of a pod or workload that cannot start."""
    kind = str(record.get("type", "")).lower()
    return kind in words.CONDITIONS_OF_START and str(record.get("status", "")).lower() == "false"


def _reasons(record: Mapping[str, Any], keys: Container[str]) -> tuple[list[str], list[str]]:
    """Return the texts of these keys, shortened to one line each, and the same texts unchanged."""
    short, raw = [], []
    for key, value in record.items():
        text = _message(value) if key in keys else ""
        if text and not words.NO_REASON.fullmatch(text):
            short.append(" ".join(text.split())[:MAX_TEXT])
            raw.append(text)
    return short, raw


def _message(value: Any, depth: int = 0) -> str:  # noqa: ANN401 - of JSON
    """Return the text of a value: a text, or an object (also as JSON text) with code and message; else ""."""
    if isinstance(value, str):
        text = value.strip()
        return _inside(text, depth) or text
    if isinstance(value, dict) and depth < MAX_INNER:
        lower = {str(key).lower(): each for key, each in value.items()}
        parts = [_message(lower[key], depth + 1) for key in ("code", "message") if key in lower]
        return ": ".join(each for each in parts if each)
    return ""


def _inside(text: str, depth: int) -> str:
    """Return the message of an object that is given as text; empty: it is none."""
    if text[:1] != "{" or len(text) > MAX_OBJECT or depth >= MAX_INNER:
        return ""
    try:
        inner = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    return _message(inner, depth + 1) if isinstance(inner, dict) else ""


def _exit(record: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return (exit code, signal) of a record, each None if not stated; a negative code is the signal.

    A code of 0 is returned.
    """
    code: int | None = None
    signal: int | None = None
    for key in words.stated(words.EXIT, record):
        value = record[key]
        if isinstance(value, dict):  # Slurm
            plain = _by_plain_key(value)
            code = _number(plain.get("returncode"))
            killed = plain.get("signal")
            signal = _number(killed.get("id", killed.get("signal_id"))) if isinstance(killed, dict) else None
        else:
            head, _, tail = str(value).partition(":")  # Slurm: 0:9
            code, signal = code or _number(head.strip()), signal or _number(tail)
    for key in words.stated(words.SIGNAL, record):
        signal = signal or _number(record[key])
    if code is not None and -MAX_SIGNAL <= code < 0:
        signal, code = -code, None
    return code, signal if signal and 0 < signal <= MAX_SIGNAL else None


def _number(value: Any) -> int | None:  # noqa: ANN401 - of JSON
    if isinstance(value, dict):
        return None if value.get("set") is False else _number(value.get("number"))
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        return None
    found = _WHOLE.fullmatch(str(value)[:12])
    return None if found is None else int(found[0])
