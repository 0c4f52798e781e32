"""The configurations of sessions: nested settings as rows, and those in which sessions differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from msgspec import Struct

from gpuwatch.runs.sessions.model.session import TrainingSession

MAX_DIFFERENCES = 50


class Difference(Struct, frozen=True):
    """A setting in which sessions differ."""

    what: str
    values: dict[str, str]
    """Session -> value."""


def flat_rows(facts: Mapping[str, Any], before: str = "") -> list[tuple[str, str]]:
    """Return nested settings as rows `a.b`, value; `before`: prefix of the names."""
    rows: list[tuple[str, str]] = []
    for name, value in facts.items():
        if isinstance(value, dict):
            rows += flat_rows(value, f"{before}{name}.")
        else:
            rows.append((f"{before}{name}", "" if value is None else str(value)))
    return rows


def configuration_differences(sessions: Sequence[TrainingSession]) -> Iterator[Difference]:
    """Yield the settings that sessions state differently, at most 50; one that a session lacks is ignored."""
    stated: dict[str, dict[str, str]] = {}
    for each in sessions:
        for name, value in flat_rows(each.summary.configuration or {}):
            stated.setdefault(name, {})[each.name] = value
    differing = ((name, values) for name, values in stated.items() if len(set(values.values())) > 1)
    for count, (name, values) in enumerate(differing):
        if count >= MAX_DIFFERENCES:
            return
        yield Difference(name, values)
