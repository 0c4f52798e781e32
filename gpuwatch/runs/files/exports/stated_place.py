"""Reads name, node, rank and time from the record of a status document. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.runs.files.exports import status_words as words
from gpuwatch.runs.model.pod_rank import PodFacts
from gpuwatch.whole_number import RANK_DIGITS, whole_number

MAX_TIME = 40
_ONE_NODE = re.compile(r"[A-Za-z0-9][\w.-]{1,120}")
_ENVIRONMENT = re.compile(r"(?P<name>[A-Z_]{2,40})=(?P<value>\d{1,7})")
_FRACTION = re.compile(r"\.\d{1,9}")
_MILLISECONDS, _YEAR_2000, _YEAR_2100 = 1e11, 946_684_800, 4_102_444_800
_LARGEST_NUMBER = 1e300
"""Largest number that may be a time; a number of more than 308 digits is no float either."""


class StatedPlace(Struct, frozen=True):
    """The name, node, rank and time that a record and those around it state."""

    name: str = ""
    node: str | None = None
    rank: int | None = None
    at: datetime | None = None
    listed: bool = False
    """True for the records of a list."""
    indexed: bool = False
    """True for a list of pods whose numbers are complete."""
    of_job: bool = False
    """True if this record or one around it describes a job, and not a setting, test or data."""


def placed(record: Mapping[str, Any], above: StatedPlace, raw: Mapping[str, Any]) -> StatedPlace:
    """Return the place of a record: its own facts, else those of the records around it.

    Args:
        record: The fields of the record by normalised key.
        above: The place of the records around it.
        raw: The fields of the record by their original keys.
    """
    place = above
    metadata = raw.get("metadata")
    name = record.get("name", "") if isinstance(record.get("name"), str) else ""
    if isinstance(metadata, dict) and isinstance(metadata.get("name"), str):
        name = metadata["name"]
    if not name:
        name = next((str(record[key]) for key in words.NAME if isinstance(record.get(key), (str, int))), "")
    if name:
        place = replace(place, name=name[-80:])
    node = _host(name) if record.get("kind") == "Node" else _node(record)
    if node is not None:
        place = replace(place, node=node)
    rank = _rank(raw, indexed=above.indexed)
    if rank is not None:
        place = replace(place, rank=rank)
    stated = bool(words.STATE & record.keys()) or any(time_of_value(record.get(key)) for key in words.TIME)
    if not words.GRAVE_REASON.isdisjoint(record) or (stated and not words.OF_JOB.isdisjoint(record)):
        place = replace(place, of_job=True)
    if "apiversion" in record or any(key in record for key in words.OUT_OF_MEMORY):
        place = replace(place, of_job=True)
    at = next((at for key in words.TIME if (at := time_of_value(record.get(key))) is not None), None)
    return place if at is None else replace(place, at=at)


def _node(record: Mapping[str, Any]) -> str | None:
    spec = record.get("spec")
    if isinstance(spec, dict) and isinstance(spec.get("nodeName"), str):
        return _host(spec["nodeName"])
    for key in words.stated(words.NODE, record):
        value = record[key]
        if isinstance(value, list) and len(value) == 1:
            value = value[0]
        if isinstance(value, str):
            host = _host(value.partition("/")[0].rpartition("@")[2])
            if host is not None and words.NO_REASON.fullmatch(host) is None:
                return host
    return None


def _host(name: str) -> str | None:
    """Return the name if it has the form of a host name, else None."""
    return name if _ONE_NODE.fullmatch(name) else None


def _rank(raw: Mapping[str, Any], *, indexed: bool) -> int | None:
    """Return the global rank that a record states, or that its environment or labels give; else None.

    `indexed`: an index in the record counts as its rank.
    """
    for key in words.RANK_KEYS:
        if (stated := _whole(raw.get(key))) is not None:
            return stated
    facts = facts_of(raw)
    return facts.index if facts.rank is None and indexed else facts.rank


def facts_of(raw: Mapping[str, Any]) -> PodFacts:
    """Return the labels, limits and variables of a pod or container that may state its rank; may be empty."""
    facts = PodFacts()
    spec = raw.get("spec")
    containers = spec.get("containers", ()) if isinstance(spec, dict) else ()
    for holder in [raw, *(containers if isinstance(containers, list) else ())]:
        if isinstance(holder, dict):
            _take_facts(facts, holder)
    return facts


def _take_facts(facts: PodFacts, holder: Mapping[str, Any]) -> None:
    """Add the variables, limits and labels of a pod or container."""
    for key in ("env", "Env", "environment", "Environment"):
        for name, value in _variables(holder.get(key)):
            facts.take(name, value)
    for key, inner in (("metadata", "labels"), ("metadata", "annotations"), ("resources", "limits")):
        part = holder.get(key)
        values = part.get(inner) if isinstance(part, dict) else None
        for name, value in values.items() if isinstance(values, dict) else ():
            facts.take(str(name), str(value))


def _whole(value: Any) -> int | None:  # noqa: ANN401 - of JSON
    text = str(value) if isinstance(value, (int, str)) and not isinstance(value, bool) else ""
    return whole_number(text, RANK_DIGITS)


def _variables(value: Any) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - of JSON
    if isinstance(value, dict):
        yield from ((str(name), str(each)) for name, each in value.items())
    for each in value if isinstance(value, list) else ():
        if isinstance(each, dict):
            yield str(each.get("name", each.get("Name"))), str(each.get("value", each.get("Value")))
        elif isinstance(each, str) and (found := _ENVIRONMENT.fullmatch(each)):
            yield found["name"], found["value"]


def time_of_value(value: Any) -> datetime | None:  # noqa: ANN401 - of JSON
    """Return the time in a value (ISO, epoch seconds or milliseconds, Slurm's number), or None."""
    if isinstance(value, dict):
        value = None if value.get("set") is False else value.get("number")
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < _LARGEST_NUMBER:
        seconds = value / 1e3 if value > _MILLISECONDS else value
        return datetime.fromtimestamp(seconds, timezone.utc) if _YEAR_2000 < seconds < _YEAR_2100 else None
    if not isinstance(value, str) or len(value) > MAX_TIME:
        return None
    text = _FRACTION.sub("", value.strip()).replace("Z", "+00:00")
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
