"""Selects the logs of failed and of slow ranks, and the logs shown first."""

from __future__ import annotations

from gpuwatch.number_text import folded
from gpuwatch.tui.logs.data.sources import LogSource, all_sources, known_ranks, rank_sources
from gpuwatch.tui.logs.search.incident_logs import incident_logs, name_of
from gpuwatch.tui.model.view_state import ViewState

MAX_FIRST_LOGS = 4
"""Number of logs in the initial selection."""


def failed_ranks(view_state: ViewState) -> list[int]:
    """Return the ranks with errors in their logs, in the order of their first error.

    Ranks whose errors are only consequences or hints come last.
    """
    found: dict[int, tuple[bool, float]] = {}
    for reported in view_state.fleet.findings.values():
        finding = reported.finding
        if finding.rank is None or finding.closed or finding.severity not in ("error", "critical"):
            continue
        node = view_state.fleet.nodes.get(reported.node)
        at = finding.at - (node.offset_s if node else 0.0)
        key = (finding.role in ("echo", "hint"), at)
        found[finding.rank] = min(found.get(finding.rank, key), key)
    return sorted(found, key=lambda rank: found[rank])


def silent_ranks(view_state: ViewState) -> list[int]:
    """Return the ranks with logs of their own, the one whose log has not grown for longest first."""
    grown: dict[int, float] = {}
    for node in view_state.fleet.nodes.values():
        for file in node.logs:
            if len(file.ranks) == 1 and file.grown_at is not None:
                rank, at = file.ranks[0], file.grown_at - node.offset_s
                grown[rank] = max(grown.get(rank, at), at)
    return sorted(grown, key=lambda rank: grown[rank])


def first_choice(view_state: ViewState) -> tuple[str, list[LogSource], bool]:
    """Return the logs shown first, a few that can be read at once, with the words that select them.

    They are those of the leading incident, else of the failed ranks; else all ranks of a small job, or the
    first and the last of a large one.

    Returns:
        (words, sources, chosen). The words are as a user would type them; "" if no rank is known. All sources
        if none has a rank. `chosen` is False if neither an incident nor a rank led to the sources.
    """
    sources = all_sources(view_state.fleet)
    if incident := view_state.snapshot.leading:
        return name_of(incident), incident_logs(incident, sources) or sources, True
    ranks, text = failed_ranks(view_state)[:MAX_FIRST_LOGS], ""
    chosen: list[LogSource] = []
    if ranks:
        text = "failed"
    elif known := known_ranks(sources):
        ranks = known if len(known) <= MAX_FIRST_LOGS else [known[0], known[-1]]
        text = folded(ranks) if len(known) > MAX_FIRST_LOGS else "all"
    for rank in ranks:
        chosen += rank_sources(sources, rank)
    return text, list(dict.fromkeys(chosen))[:MAX_FIRST_LOGS] or sources, bool(chosen)
