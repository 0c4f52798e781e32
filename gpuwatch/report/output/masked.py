"""Counts the secrets that a report shows as masks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gpuwatch.agent.masking.secret_forms import MASK
from gpuwatch.number_text import plural


def masked_in(value: object) -> int:
    """Return the number of masks in the texts of nested data (mappings' values and iterables)."""
    if isinstance(value, str):
        return value.count(MASK)
    if isinstance(value, Mapping):
        return sum(map(masked_in, value.values()))
    return sum(map(masked_in, value)) if isinstance(value, Iterable) else 0


def masked_line(count: int) -> str:
    """Return the line of a text report about this number of masks; empty if there are none."""
    if not count:
        return ""
    return f"{plural(count, 'secret')} in command lines and log text: shown as {MASK}\n"
