"""Statistics across ranks of each rank's statistics, which show the slowest, hottest or fullest rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..measures.distribution import statistics_over_ranks

TEMPERATURE_NAMES = ("max", "mean", "median")
TIMER_NAMES = ("mean", "max")
PARTS = ("timers", "cuda_timers")


def default_names(summaries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the default tree for `cross_rank_statistics`: temperature; mean and maximum of timers."""
    names: dict[str, Any] = {"gpu_temperature": TEMPERATURE_NAMES}
    for part in PARTS:
        timers = {name: TIMER_NAMES for summary in summaries for name in summary.get(part) or ()}
        if timers:
            names[part] = timers
    return names


def cross_rank_statistics(
    summaries: Sequence[Mapping[str, Any]], names: Mapping[str, Any] | Iterable[str]
) -> dict[str, Any]:
    """Return statistics over the ranks of the numbers under `names`.

    Args:
        summaries: By rank; a rank without a number does not shift the others' indices.
        names: The tree of wanted numbers, as in the summaries, with sets, lists or tuples of names as its
            leaves: `{"timers": {"forward": {"mean"}}}`.

    Returns:
        The same tree; each leaf has `count`, `mean`, `median`, `std_dev`, `min`, `max`, `min_index`,
        `max_index`. The indices are ranks. Numbers that no rank has are left out.
    """
    return _aggregate(dict(enumerate(summaries)), names)


def _aggregate(by_rank: Mapping[int, Any], names: Mapping[str, Any] | Iterable[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in sorted(names) if isinstance(names, (set, frozenset)) else names:
        inner = names[name] if isinstance(names, Mapping) else None
        values = {
            rank: values[name]
            for rank, values in by_rank.items()
            if isinstance(values, Mapping) and values.get(name) is not None
        }
        if isinstance(inner, (Mapping, set, frozenset, list, tuple)):
            below = _aggregate(values, inner)
            if below:
                found[name] = below
        else:
            numbers = {
                rank: float(value)
                for rank, value in values.items()
                if isinstance(value, (int, float)) and not isinstance(value, bool)
            }
            if numbers:
                found[name] = statistics_over_ranks(numbers)
    return found
