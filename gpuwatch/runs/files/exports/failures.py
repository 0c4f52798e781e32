"""Finds the records of a parsed document that state a failure, with node, rank, time and exit code. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timezone
from typing import Any

from gpuwatch.runs.files.exports import status_words as words

MAX_DEPTH = 24
MAX_REPORTS = 64
"""Most failures of one document."""
MAX_TEXT = 600
MAX_TIME = 40
_ONE_NODE = re.compile(r"[A-Za-z0-9][\w.-]{1,120}")
_ENVIRONMENT = re.compile(r"(?P<name>[A-Z_]{2,40})=(?P<value>\d{1,7})")
_KEY = re.compile(r"[ _.-]")
_FRACTION = re.compile(r"\.\d{1,9}")
_WHOLE = re.compile(r"-?\d{1,10}")
_MILLISECONDS, _YEAR_2000, _YEAR_2100 = 1e11, 946_684_800, 4_102_444_800
MAX_SIGNAL = 64
STOPPED = ("stopped", "exited", "terminated", "shutting-down", "deprovisioning")
"""States of an end whose reason decides."""


@dataclass(frozen=True)
class StatedPlace:
    """The name, node, rank and time that a record and those around it state."""

    name: str = ""
    node: str | None = None
    rank: int | None = None
    at: datetime | None = None


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
    """Return the failures that a document states; empty if it states none."""
    found: list[StatedFailure] = []
    for report in _walk(document, StatedPlace(), 0):
        if report not in found:
            found.append(report)
        if len(found) >= MAX_REPORTS:
            break
    return found


def _walk(value: Any, above: StatedPlace, depth: int) -> Iterator[StatedFailure]:  # noqa: ANN401 - of JSON
    if depth > MAX_DEPTH:
        return
    if isinstance(value, list):
        for each in value:
            yield from _walk(each, above, depth + 1)
    if not isinstance(value, dict):
        return
    record = {_KEY.sub("", str(key)).lower(): each for key, each in value.items()}
    if _is_on_purpose(record):
        return
    place, state = _placed(record, above, value), _state(record)
    own = _taken(record, place)
    if own is None and _is_good(record, state):
        return  # what failed within it is over
    inner = [report for each in _inner(record) for report in _walk(each, place, depth + 1)]
    own = own or _report(record, place, state)
    if own is not None and not _is_repeated(own, inner):
        yield own
    yield from inner


def _is_on_purpose(record: Mapping[str, Any]) -> bool:
    """Return True if a person, or the service that the task belongs to, requested the end."""
    texts = [_message(record[key]) for key in (words.REASON | words.DETAIL) & record.keys()]
    return any(words.ON_PURPOSE.search(text) for text in texts)


def _is_repeated(own: StatedFailure, inner: list[StatedFailure]) -> bool:
    """Return True if a record states no more than those within it."""
    stated = {reason for each in inner for reason in each.reasons}
    return bool(inner) and all(reason in stated for reason in own.reasons)


def _inner(record: Mapping[str, Any]) -> Iterator[Any]:
    """Yield the parts of a record; a container's earlier end only if it waits to be started again."""
    for key, each in record.items():
        earlier = key == "laststate" and not (
            isinstance(record.get("state"), dict) and "waiting" in record["state"]
        )
        if key not in ("env", "environment", "spec") and not earlier and isinstance(each, (dict, list)):
            yield each


def _taken(record: Mapping[str, Any], place: StatedPlace) -> StatedFailure | None:
    """Return the failure of a machine that was taken away, from a record of a cloud's operations, or None."""
    named = [str(record[key]) for key in words.OPERATION & record.keys() if isinstance(record[key], str)]
    found = next((each for each in named if words.TAKEN.search(each)), None)
    if found is None:
        return None
    details, raw = _reasons(record, words.DETAIL)
    if "instanceaction" in record:
        found = f"instance-action: {record['instanceaction']}"
    return StatedFailure(place, "taken", None, None, (found, *details), values=(found, *raw))


def _report(record: Mapping[str, Any], place: StatedPlace, state: str) -> StatedFailure | None:
    code, signal = _exit(record)
    reasons, values = _reasons(record, words.REASON)
    details, more = _reasons(record, words.DETAIL)
    killed = any(str(record.get(key)).lower() == "true" for key in words.OUT_OF_MEMORY)
    failed = bool(words.FAILED.match(state)) or record.get("failed") is True or killed or _condition(record)
    if code == 0 and not failed:
        return None
    failed = failed or bool(code) or bool(signal) or any(words.CRASH_LOOP.fullmatch(each) for each in reasons)
    told = tuple(dict.fromkeys([*reasons, *details]))
    waiting = not failed and bool(reasons) and (bool(words.WAITING.match(state)) or _waits(record))
    stopped = not failed and bool(reasons) and state.lower() in STOPPED
    if not (failed or waiting or stopped):
        return None
    texts = (*values, *more, *([f"{code}"] if code else []), state)
    return StatedFailure(place, state, code or None, signal, told, waiting, killed, texts)


def _state(record: Mapping[str, Any]) -> str:
    """Return the state in a record: a known one, else the first with a text; empty: none."""
    for key in words.STATE & record.keys():
        text = _word(record[key])
        if text and (words.FAILED.match(text) or words.GOOD.match(text) or words.WAITING.match(text)):
            return text
    return next((text for key in sorted(words.STATE & record.keys()) if (text := _word(record[key]))), "")


def _word(value: Any) -> str:  # noqa: ANN401 - of JSON
    """Return a state as text, from a text, a list of flags, or an object with its name; empty: none."""
    if isinstance(value, str):
        return value.strip()
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
    inside = (
        {_KEY.sub("", str(key)).lower(): each for key, each in status.items()}
        if isinstance(status, dict)
        else record
    )
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
    """Return True if a record is a condition of a pod or workload that cannot start."""
    kind = str(record.get("type", "")).lower()
    return kind in words.CONDITIONS_OF_START and str(record.get("status", "")).lower() == "false"


def _reasons(record: Mapping[str, Any], keys: frozenset[str]) -> tuple[list[str], list[str]]:
    """Return the texts of these keys, on one line and shortened, and the same texts unchanged."""
    told, raw = [], []
    for key, value in record.items():
        text = _message(value) if key in keys else ""
        if text and not words.NO_REASON.fullmatch(text):
            told.append(" ".join(text.split())[:MAX_TEXT])
            raw.append(text)
    return told, raw


def _message(value: Any) -> str:  # noqa: ANN401 - of JSON
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, dict):
        lower = {str(key).lower(): each for key, each in value.items()}
        parts = [lower.get("code"), lower.get("message")]
        return ": ".join(each.strip() for each in parts if isinstance(each, str) and each.strip())
    return ""


def _exit(record: Mapping[str, Any]) -> tuple[int | None, int | None]:
    """Return (exit code, signal) of a record, each None if not stated; a code of 0 is returned."""
    code: int | None = None
    signal: int | None = None
    for key in words.EXIT & record.keys():
        value = record[key]
        if isinstance(value, dict):  # Slurm
            lower = {_KEY.sub("", str(name)).lower(): each for name, each in value.items()}
            code = _number(lower.get("returncode"))
            killed = lower.get("signal")
            signal = _number(killed.get("id", killed.get("signal_id"))) if isinstance(killed, dict) else None
        else:
            head, _, tail = str(value).partition(":")  # Slurm: 0:9
            code, signal = code or _number(head.strip()), signal or _number(tail)
    for key in words.SIGNAL & record.keys():
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


def _placed(record: Mapping[str, Any], above: StatedPlace, raw: Mapping[str, Any]) -> StatedPlace:
    place = above
    metadata = raw.get("metadata")
    name = record.get("name", "") if isinstance(record.get("name"), str) else ""
    if isinstance(metadata, dict) and isinstance(metadata.get("name"), str):
        name = metadata["name"]
    if not name:
        name = next((str(record[key]) for key in words.NAME if isinstance(record.get(key), (str, int))), "")
    if name:
        place = replace(place, name=name[-80:])
    node = name if record.get("kind") == "Node" else _node(record)
    if node is not None:
        place = replace(place, node=node)
    rank = _rank(raw)
    if rank is not None:
        place = replace(place, rank=rank)
    at = next((at for key in words.TIME if (at := _time(record.get(key))) is not None), None)
    return place if at is None else replace(place, at=at)


def _node(record: Mapping[str, Any]) -> str | None:
    spec = record.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("nodeName"), str):
        return str(spec["nodeName"])
    for key in words.NODE & record.keys():
        value = record[key]
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, str):
            host = value.partition("/")[0].rpartition("@")[2]
            if _ONE_NODE.fullmatch(host) and words.NO_REASON.fullmatch(host) is None:
                return host
    return None


def _rank(raw: Mapping[str, Any]) -> int | None:
    """Return the global rank in a record's environment, or None."""
    spec = raw.get("spec")
    holders = [raw, *(spec.get("containers", ()) if isinstance(spec, dict) else ())]
    for holder in holders:
        if not isinstance(holder, dict):
            continue
        for key in ("env", "Env", "environment", "Environment"):
            for name, value in _variables(holder.get(key)):
                if name in words.RANKS and value.isdecimal() and len(value) < 7:
                    return int(value)
    return None


def _variables(value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - of JSON
    if isinstance(value, dict):
        yield from ((str(name), str(each)) for name, each in value.items())
    for each in value if isinstance(value, list) else ():
        if isinstance(each, dict):
            yield str(each.get("name", each.get("Name"))), str(each.get("value", each.get("Value")))
        elif isinstance(each, str) and (found := _ENVIRONMENT.fullmatch(each)):
            yield found["name"], found["value"]


def _time(value: Any) -> datetime | None:  # noqa: ANN401 - of JSON
    if isinstance(value, dict):
        value = None if value.get("set") is False else value.get("number")
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = value / 1e3 if value > _MILLISECONDS else value
        return datetime.fromtimestamp(seconds, timezone.utc) if _YEAR_2000 < seconds < _YEAR_2100 else None
    if isinstance(value, datetime):  # of YAML
        return value
    if not isinstance(value, str) or len(value) > MAX_TIME:
        return None
    text = _FRACTION.sub("", value.strip()).replace("Z", "+00:00")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
