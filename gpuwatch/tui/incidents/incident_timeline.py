"""The timeline of an incident: what happened when, to which ranks; and the ranks as a strip of signs."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator
from typing import Literal, TypeAlias

from rich.segment import Segment

from gpuwatch.blocks.model import Heading
from gpuwatch.diagnose.incidents import content
from gpuwatch.diagnose.model.failure_classes import TOOK_PART
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.diagnose.model.rank_index import MAX_WORLD
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.log_coverage import ranks_without_log
from gpuwatch.tui.incidents.evidence_location import ranks_of
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.lines.block_rows import painted
from gpuwatch.tui.toolkit.lines.item_page import ItemPage, PageItem
from gpuwatch.tui.toolkit.lines.rows import Row, heading
from gpuwatch.tui.toolkit.styles import StyleSet

Part: TypeAlias = Literal["cause", "silent", "follower", "unlogged", "quiet"]
PARTS: dict[Part, tuple[Severity, str]] = {
    "cause": ("critical", "failed first"),
    "silent": ("unknown", "silent"),
    "follower": ("warning", "followed"),
    "unlogged": ("unknown", "no log"),
    "quiet": ("ok", "no error so far"),
}
"""The part that a rank had in the incident, the most severe first."""
STRIP_LINES = 4
STRIP_STEP = 8
"""Number of signs between two gaps in the strip: a node usually has eight GPUs."""
ACROSS = (64, 32, 16)
"""Possible numbers of signs per line, from the widest; the first that fits is used."""


def parts_of(incident: Incident, world: int, unlogged: Container[int] = ()) -> list[Part]:
    """Return the part of each rank (0 to `world` - 1) in the incident.

    Ranks in `unlogged` have no followed log. A rank for which the timeline records that it waited is not
    silent. Followers are the ranks of timeline entries that began or lasted until after the cause; an entry
    that is only a hint must have begun after it.
    """
    followed = [
        moment
        for moment in incident.timeline
        if (moment.at if moment.role == "hint" else moment.until) >= incident.first
    ]
    followers = {rank for moment in followed for rank in moment.ranks}
    waits = {alert.code for alert in incident.alerts if alert in TOOK_PART}
    waited = {rank for moment in incident.timeline if moment.code in waits for rank in moment.ranks}
    silent = set(incident.silent) - waited
    found: list[Part] = []
    for rank in range(world):
        part: Part = "unlogged" if rank in unlogged else "quiet"
        if rank == incident.rank:
            part = "cause"
        elif rank in silent:
            part = "silent"
        elif rank in followers:
            part = "follower"
        found.append(part)
    return found


def part_mark(part: Part, look: StyleSet) -> Segment:
    """Return the segment with the sign of a rank's part in the incident."""
    severity, _ = PARTS[part]
    return (
        Segment(look.glyphs.missing, look.severity[severity]) if part == "unlogged" else look.mark(severity)
    )


def world_of(incident: Incident, fleet: Fleet) -> int:
    """Return the job's world size as its processes report it, or the highest rank in the incident plus 1.

    The larger of both; 0 if neither is known, or above `MAX_WORLD`.
    """
    processes = [p for node in fleet.nodes.values() for p in node.processes if p.world_size is not None]
    sizes = [p.world_size or 0 for p in processes if incident.job is None or p.job == incident.job]
    ranks = [rank for moment in incident.timeline for rank in moment.ranks]
    world = max([*sizes, *(rank + 1 for rank in (*ranks, *incident.silent))], default=0)
    return world if world <= MAX_WORLD else 0


def rank_rows(incident: Incident, fleet: Fleet, width: int, look: StyleSet) -> Iterator[Row]:
    """Yield the ranks as a strip of signs and its legend.

    In a large job one sign stands for several ranks and shows the most severe part. Yields nothing for fewer
    than two ranks, or if the incident names neither a job nor a rank.
    """
    if incident.job is None and not ranks_of(incident):
        return  # of a node: which job it hit is not known
    world = world_of(incident, fleet)
    parts = parts_of(incident, world, ranks_without_log(fleet.nodes.values(), incident.job, world))
    if len(parts) < 2:
        return
    label = len(str(len(parts))) + 2
    across = next((n for n in ACROSS if n + n // STRIP_STEP + label < width), STRIP_STEP)
    each = -(-len(parts) // (across * STRIP_LINES))
    yield heading("Ranks", width, look, f"{each} ranks per sign" if each > 1 else "")
    order = list(PARTS)
    for begin in range(0, len(parts), across * each):
        row = [Segment(f"{begin:>{label - 1}} ", look.dim)]
        for cell in range(begin, min(begin + across * each, len(parts)), each):
            row.append(part_mark(min(parts[cell : cell + each], key=order.index), look))
            row += [Segment(" ")] if each == 1 and cell % STRIP_STEP == STRIP_STEP - 1 else []
        yield tuple(row)
    legend: list[Segment] = [Segment(" " * label)]
    for part, (_, words) in PARTS.items():
        if number := parts.count(part):
            legend += [part_mark(part, look), Segment(f" {number} {words}   ", look.dim)]
    yield tuple(legend)


class IncidentPage(ItemPage):
    """A pane about the incident that the screen shows."""

    def __init__(self, ident: str) -> None:
        super().__init__(id=ident)
        self.ident: str | None = None
        """Id of the shown incident; None: there is none."""

    def incident(self) -> Incident | None:
        """Return the shown incident; None if there is none."""
        return self.view_state.snapshot.incident(self.ident)

    def made_for(self) -> Hashable:
        return id(self.view_state.snapshot), self.ident


class IncidentMoments(IncidentPage):
    """The pane with the timeline of the shown incident, beside its detail if there is room."""

    DEFAULT_CSS = "IncidentMoments { width: 1fr; height: 1fr; margin: 0 0 0 2; }"

    def __init__(self) -> None:
        super().__init__("moments")
        self._rank_lines = 0
        """Number of lines of the strip of ranks, its heading included."""

    def made_for(self) -> Hashable:
        return super().made_for(), self.size.height

    def build(self, width: int) -> list[Row]:
        """Return all lines; a heading of the ranks that would be the last visible one is moved below it."""
        rows = super().build(width)
        heading_at = len(rows) - self._rank_lines
        if self._rank_lines and heading_at == self.size.height - 1:
            rows.insert(heading_at, ())
        return rows

    def parts(self, width: int) -> Iterator[Row | PageItem]:
        incident, self._rank_lines = self.incident(), 0
        if incident is None:
            return
        notes = {"Timeline": f"{self.cockpit.key_of('move.open')} opens the log line"}
        yield from painted([Heading("Timeline"), *content.events(incident)], width, self.look, notes)
        ranks = list(rank_rows(incident, self.view_state.fleet, width, self.look))
        self._rank_lines = len(ranks)
        yield from ranks
