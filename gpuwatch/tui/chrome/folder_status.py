"""The status lines over a folder of logs: its name, how much is read, node counts, the job's outcome."""

from __future__ import annotations

from rich.segment import Segment

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.tui.model.alert_snapshot import severity_shown
from gpuwatch.tui.model.log_folder import LogFolder
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.model.view_state import ViewState
from gpuwatch.tui.toolkit.charts import bar
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit

BAR_CELLS, NARROW_BAR_CELLS, WIDE_COLUMNS = 12, 6, 100


def folder_title(folder: LogFolder, source: str, look: StyleSet, width: int) -> list[Segment]:
    """Return the segments with the folder's name, and a progress bar while it is being read."""
    out = [Segment(" LOGS ", look.badge["warning"]), Segment(" ")]
    name, room = clean(source), max(16, width // 3)
    if len(name) > room:
        name = f"...{name[len(name) - room + 3 :]}"  # the end says which folder it is
    out.append(Segment(f"{name}  ", look.strong))
    if folder.read_share < 1.0:
        cells = BAR_CELLS if width >= WIDE_COLUMNS else NARROW_BAR_CELLS
        out += bar(folder.read_share, cells, look, look.severity["info"])
        out.append(Segment(f" {folder.read_share:.0%} read  ", look.dim))
    return out


def folder_counts(fleet: Fleet, look: StyleSet) -> list[Segment]:
    """Return the segments with the numbers of nodes, ranks and files in the logs."""
    ranks = len(set().union(*(node.ranks_of_logs for node in fleet.nodes.values())))
    files = sum(len(node.logs) for node in fleet.nodes.values())
    out: list[Segment] = []
    for word, number in (("nodes", len(fleet.nodes)), ("ranks", ranks), ("files", files)):
        out += [Segment(f" {word} ", look.dim), Segment(f"{number} ", look.text)]
    return out


def folder_state(view_state: ViewState, look: StyleSet, width: int) -> list[Segment]:
    """Return the segments shown when there is no incident: a problem, reading in progress, or the outcome.

    Empty without a folder, or below 12 columns.
    """
    folder = view_state.folder
    if folder is None or width < 12:
        return []
    severity: Severity
    shown: Severity | None = None
    if folder.trouble:
        text, severity = folder.trouble, "warning"
    elif folder.read_share < 1.0:
        text, severity = "no incident in what is read so far", "unknown"
    else:
        alert = view_state.snapshot.loudest
        text = folder.outcome if alert is None else f"{alert.title}: {alert.text}"
        severity = "ok" if alert is None else alert.severity
        shown = None if alert is None else severity_shown(alert)
    text = clean(f"{look.glyph(severity)} {text} ")
    return [Segment(fit(text, min(len(text), width)), look.severity[shown or severity])]
