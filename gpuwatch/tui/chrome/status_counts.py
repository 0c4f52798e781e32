"""The counts of nodes, GPUs and alerts in the status bar, and which are left out if space is short."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.segment import Segment

from gpuwatch.tui.model.alert_snapshot import AlertSnapshot
from gpuwatch.tui.model.node_summary import Totals
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.styles import StyleSet

WELL_PARTS = 3
"""Number of segments of `node_counts` and of `gpu_counts` that come before the counts of problems."""
LEAST_COUNTS = 3
"""Number of the last entries of `StatusCounts.ways`: those that omit the alerts."""


def width_of(parts: list[Segment]) -> int:
    """Return the width of some segments, in cells."""
    return sum(part.cell_length for part in parts)


def _count(
    look: StyleSet, number: int, word: str, severity: Severity, sign: str | None = None
) -> list[Segment]:
    style = look.severity[severity] if number else look.dim
    return [Segment(f"{sign or look.glyph(severity)} {number}", style), Segment(f" {word}  ", look.dim)]


def node_counts(totals: Totals, look: StyleSet) -> list[Segment]:
    """Return the segments with the number of nodes in each state; other than live only if not 0."""
    out = [Segment(" nodes ", look.dim), *_count(look, totals.states["live"], "live", "ok")]
    wanted: tuple[tuple[str, Severity], ...] = (
        ("connecting", "unknown"),
        ("stale", "warning"),
        ("lost", "critical"),
    )
    for state, severity in wanted:
        if number := totals.states[state]:  # type: ignore[index]  # `wanted` has states only
            out += _count(look, number, state, severity)
    if totals.unreachable:
        out += _count(look, totals.unreachable, "unreachable", "critical")
    return out


def gpu_counts(totals: Totals, look: StyleSet) -> list[Segment]:
    """Return the segments with how many of the expected GPUs answer.

    Further segments count the GPUs that are stuck, have not answered yet or are lost, if there are any. The
    list is empty while no GPU is known.
    """
    if not totals.expected:
        return []
    out = [Segment("GPUs ", look.dim)]
    severity: Severity = "ok" if totals.ok == totals.expected else "warning"
    out += [
        Segment(f"{look.glyph('ok')} {totals.ok}", look.severity["ok"] if totals.ok else look.dim),
        Segment(f" of {totals.expected}  ", look.dim if severity == "ok" else look.severity[severity]),
    ]
    if totals.stuck:
        out += _count(look, totals.stuck, "stuck", "warning", look.glyphs.stuck)
    if totals.unanswered:
        out += _count(look, totals.unanswered, "no answer yet", "unknown", look.glyphs.missing)
    if totals.lost:
        out += _count(look, totals.lost, "lost", "critical", look.glyphs.lost)
    return out


def alert_counts(reported: AlertSnapshot, look: StyleSet) -> list[Segment]:
    """Return the segments with the numbers of active alert codes: critical ones, errors and warnings.

    Empty if none is active.
    """
    counts: tuple[tuple[int, Severity], ...] = (
        (reported.criticals, "critical"),
        (reported.errors, "error"),
        (reported.warnings, "warning"),
    )
    out = [Segment(f"{look.glyph(sign)} {number} ", look.severity[sign]) for number, sign in counts if number]
    return [Segment("alerts ", look.dim), *out, Segment(" ")] if out else []


class StatusCounts(Struct, frozen=True):
    """The segments of all counts; nodes and GPUs with problems are kept separate from the others."""

    nodes: Sequence[Segment]
    lost_nodes: Sequence[Segment] = ()
    gpus: Sequence[Segment] = ()
    lost_gpus: Sequence[Segment] = ()
    alerts: Sequence[Segment] = ()

    @classmethod
    def of(cls, totals: Totals, reported: AlertSnapshot, look: StyleSet) -> StatusCounts:
        """Return the counts of a fleet."""
        nodes, gpus = node_counts(totals, look), gpu_counts(totals, look)
        well = slice(WELL_PARTS), slice(WELL_PARTS, None)
        return cls(nodes[well[0]], nodes[well[1]], gpus[well[0]], gpus[well[1]], alert_counts(reported, look))

    def ways(self) -> list[list[Segment]]:
        """Return the forms of the counts (segments), from complete to empty; problems are dropped last."""
        lost = [*self.nodes[:1], *self.lost_nodes] if self.lost_nodes else [Segment(" ")]
        label = self.gpus[:1] if self.lost_nodes and self.lost_gpus else ()
        trouble = [*lost, *label, *self.lost_gpus]
        return [
            [*self.nodes, *self.lost_nodes, *self.gpus, *self.lost_gpus, *self.alerts],
            [*lost, *self.gpus, *self.lost_gpus, *self.alerts],
            [*trouble, *self.alerts],
            [*trouble, *self.alerts[1:]],
            trouble,
            [Segment(" "), *self.lost_gpus],
            [Segment(" ")],
        ]

    def fitting(self, room: int, *, least: int = 0) -> list[Segment]:
        """Return the first of `ways` that fits into `room` columns; the last one if none does.

        `least`: the number of the last ways that are left out.
        """
        ways = self.ways()
        ways = ways[: len(ways) - least]
        return next((way for way in ways if width_of(way) <= room), ways[-1])
