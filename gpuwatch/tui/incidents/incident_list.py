"""The list of the session's incidents, one line each, newest first; without incidents, what is watched."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from rich.segment import Segment

from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.number_text import listed, plural
from gpuwatch.tui.incidents.log_coverage import Watching, watching
from gpuwatch.tui.model.alert_snapshot import acknowledged_text, severity_shown, sign_shown
from gpuwatch.tui.model.log_folder import LogFolder
from gpuwatch.tui.toolkit.lines.item_page import ItemPage, PageItem, hanging
from gpuwatch.tui.toolkit.lines.rows import Row, heading, wrapped
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit

MAX_NAMED_PLACES = 5
"""Nodes and files that are named before the rest is counted."""


def standing_of(incident: Incident, wall: float, *, named: bool = False) -> str:
    """Return `resolved`, `acknowledged 08:33`, or "" for an incident that needs attention.

    `wall`: now, in unix seconds. `named`: include who acknowledged it.
    """
    if incident.over:
        return "resolved"
    by = incident.acknowledged_by if named else None
    return acknowledged_text(incident.acknowledged_at, wall, by) if incident.acknowledged else ""


class IncidentList(ItemPage):
    """The widget with one line per incident."""

    DEFAULT_CSS = "IncidentList { height: 2; }"

    def __init__(self) -> None:
        super().__init__(id="incidents")

    def made_for(self) -> Hashable:
        reported = self.view_state.snapshot
        return id(reported), None if reported.incidents else watching(
            self.view_state.fleet, self.view_state.session.packs
        )

    def parts(self, width: int) -> Iterator[Row | PageItem]:
        reported = self.view_state.snapshot
        if not reported.incidents:
            yield heading("Incidents", width, self.look)
            seen = watching(self.view_state.fleet, self.view_state.session.packs)
            folder = self.view_state.folder
            if folder is None:
                yield from nothing_wrong(seen, width, self.look)
            else:
                yield from nothing_found(seen, folder, width, self.look)
            return
        resolved = sum(each.over for each in reported.incidents)
        tally = f"{len(reported.incidents) - resolved} active, {resolved} resolved"
        if not self.has_focus:
            tally += f"; {self.cockpit.key_of('pane.previous')}: choose"
        tally = tally if len(reported.incidents) > 1 else ""
        yield heading("Incidents" if len(reported.incidents) > 1 else "Incident", width, self.look, tally)
        shown = self.incident() or reported.incidents[0]
        for incident in reported.incidents:
            marked = incident.id == shown.id and len(reported.incidents) > 1 and not self.has_focus
            row = self._line(incident, width, marked=marked)
            yield PageItem(incident.id, (row,), incident.cause, clean(incident.headline))

    def _line(self, incident: Incident, width: int, *, marked: bool) -> Row:
        """Return the line of one incident; `marked`: it is shown in full, but another pane has the cursor."""
        look, stands = self.look, standing_of(incident, self.view_state.wall())
        sure = look.dim if stands else look.strong
        head = [
            Segment(look.glyph(sign_shown(incident)), look.severity[severity_shown(incident)]),
            Segment(look.glyphs.cursor, look.title) if marked else Segment(" "),
            Segment(f"#{incident.number}", sure),
            Segment(f" {self.view_state.ago(incident.first):>8}  ", look.dim),
            Segment(f"{stands}  " if stands else "", look.dim),
            Segment(f"{incident.closed}  " if incident.closed else "", look.strong),
        ]
        room = width - sum(part.cell_length for part in head)
        return (*head, Segment(fit(incident.headline, room), sure))

    def incident(self) -> Incident | None:
        """Return the incident under the cursor; None without incidents."""
        item = self.chosen()
        return None if item is None else self.view_state.snapshot.incident(str(item.key))


ENDED = (
    "gpuwatch searches the nodes for logs of jobs that ended in the last 6 hours. For older logs, use --log "
    "or `logs:` in the hosts file. `gpuwatch scan PATH` analyzes logs on this machine."
)


def nothing_wrong(seen: Watching, width: int, look: StyleSet) -> Iterator[Row]:
    """Yield the lines shown without an incident: which logs are read, and what is not visible."""
    yield ()
    if seen.files and seen.rules:
        yield (Segment(" "), look.mark("ok"), Segment(" No incidents detected.", look.strong))
    else:
        blind = " No incidents detected, but no training log is followed."
        yield (Segment(" "), look.mark("unknown"), Segment(blind, look.strong))
    yield ()
    files = (
        f"{seen.files} log files on {seen.nodes} of {seen.all_nodes} nodes are read with {seen.rules} rules,"
    )
    kernel = f"and the kernel logs of {seen.kernels} nodes"
    yield from wrapped(f"{files} {kernel}.", width, look.text, indent=3)
    if seen.backlog:
        text = f"{seen.backlog} files are still being searched for earlier events"
        yield from wrapped(text, width, look.dim, indent=3)
    if seen.silent:
        yield from _unseen("no log file found on", seen.silent, width, look)
    if seen.unlogged:
        yield from _unseen("no log is followed for", seen.unlogged, width, look)
    for text in seen.unranked:
        yield from wrapped(clean(text), width, look.dim, indent=3)
    for reason, names in seen.unreadable:
        yield from _unseen(f"{reason}:", names, width, look)
    yield ()
    yield from wrapped(ENDED, width, look.dim, indent=3)


def nothing_found(seen: Watching, folder: LogFolder, width: int, look: StyleSet) -> Iterator[Row]:
    """Yield the lines for a folder of logs without an incident so far, and what could not be read."""
    yield ()
    read = folder.read_share >= 1.0 and not folder.trouble
    mark = look.mark("ok" if read else "unknown")
    text = (
        " No incident found." if read else f" No incident in what is read so far ({folder.read_share:.0%})."
    )
    yield (Segment(" "), mark, Segment(text, look.strong))
    yield ()
    if folder.outcome:
        yield from wrapped(f"How the job ended: {folder.outcome}.", width, look.text, indent=3)
    files = f"{plural(seen.files, 'log file')} of {plural(seen.all_nodes, 'node')}, {seen.rules} rules"
    yield from wrapped(folder.trouble or files, width, look.dim, indent=3)
    for reason, names in seen.unreadable:
        yield from _unseen(f"{reason}:", names, width, look)


def _unseen(what: str, names: tuple[str, ...], width: int, look: StyleSet) -> Iterator[Row]:
    text = clean(f"{what} {listed(names, MAX_NAMED_PLACES)}")
    yield from hanging((Segment(" "), look.mark("warning"), Segment(" ")), text, width, look.text)
