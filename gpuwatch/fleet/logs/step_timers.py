"""Finds the parts of a step that are communication or data loading, by the names of logged timers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

COMMUNICATION = (
    "allreduce", "all_reduce", "all-reduce", "reduce_scatter", "all_gather", "all_to_all", "comm", "sync",
)  # fmt: skip
LOADING = ("data", "batch", "loader", "dataloader", "batch-generator")
NOT_LOADING = ("parallel", "train_batch", "train-batch", "batch_time", "batch-time", "batch_cost", "setup")
"""Timer names with a word for data loading that mean a whole step, communication or one-time work."""


def longest_timer(phases: Mapping[str, float], words: Sequence[str]) -> float:
    """Return the seconds of the longest timer whose name has one of the words (timers are nested), or 0.0."""
    named = ((name.lower(), seconds) for name, seconds in phases.items())
    not_meant = NOT_LOADING if words is LOADING else ()
    return max(
        (s for name, s in named if any(w in name for w in words) and not any(w in name for w in not_meant)),
        default=0.0,
    )
