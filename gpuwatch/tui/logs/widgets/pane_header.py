"""The words of a log pane's header: whose log it is, where, how old, how fast, and how that is known."""

from __future__ import annotations

from pathlib import PurePosixPath

from rich.cells import cell_len
from rich.segment import Segment

from gpuwatch.tui.logs.data.buffer import Buffer
from gpuwatch.tui.logs.data.sources import HOW, folded
from gpuwatch.tui.logs.data.viewport import View
from gpuwatch.tui.logs.widgets.line_painter import fit_list
from gpuwatch.tui.logs.workspace.workspace import LogWorkspace
from gpuwatch.tui.toolkit.styles import StyleSet, clean
from gpuwatch.tui.toolkit.text import age_text
from gpuwatch.wire import KERNEL_LOG, LogFile


def file_words(
    buffer: Buffer, file: LogFile | None, age: float | None, now: float, look: StyleSet, room: int
) -> list[Segment]:
    """Rank, node, GPU, age, pace, file and how the rank is known; what matters most stands first."""
    source = buffer.source
    named = (
        f" {'kernel log' if source.file == KERNEL_LOG else 'log'} "
        if source.rank is None
        else f" rank {source.rank} "
    )
    place = source.node if source.gpu is None else f"{source.node} GPU {source.gpu}"
    quiet = "no line yet" if age is None else f"{age_text(age)} ago"
    rate = buffer.rate(now)
    pace = f" {rate:,.{0 if rate >= 10 else 1}f}/s" if rate else ""
    out = [
        Segment(named, look.title),
        Segment(f"{clean(place)}  ", look.strong),
        Segment(f"{quiet}{pace}  ", look.text),
    ]
    if source.file != KERNEL_LOG:
        left = room - sum(segment.cell_length for segment in out)
        out.append(Segment(short_path(source.file, left) + "  ", look.dim))
    if source.shared:
        out.append(Segment(f"lines of this rank; file of {len(source.ranks)} ranks  ", look.dim))
    elif source.rank is None and source.ranks:
        out.append(Segment(f"ranks {folded(source.ranks)}  ", look.dim))
    if file is not None and file.backlog_pct is not None:
        out.append(Segment(f"scanned {file.backlog_pct:.0f}%  ", look.dim))
    if file is not None and file.seams:
        out.append(Segment(f"{file.seams}x rotated or truncated  ", look.severity["warning"]))
    if source.how is not None:
        out.append(Segment(f"rank from {HOW[source.how]}", look.dim))
    return out


def short_path(path: str, room: int, most: int = 3) -> str:
    """The last parts of a path, as many as fit; its end is what distinguishes it from others."""
    names = PurePosixPath(clean(path)).parts
    if len(names) <= most and len(path) <= room:
        return clean(path)
    tails = (".../" * (count < len(names)) + "/".join(names[-count:]) for count in range(most, 0, -1))
    return next((tail for tail in tails if cell_len(tail) <= room), names[-1] if names else path)


def merged_words(view: View, workspace: LogWorkspace, look: StyleSet) -> list[Segment]:
    """What is merged, in which order, and how sure the clocks are."""
    buffers = view.buffers
    ranks = workspace.everyone(view)
    loaded = sum(bool(buffer.lines) for buffer in buffers)
    of_all = "" if loaded == len(buffers) else f"{loaded} of "
    files = f"{of_all}{len(buffers)} file{'s' * (len(buffers) != 1)}"
    out = [
        Segment(" merged ", look.title),
        Segment(f"{fit_list(ranks)}  " if ranks else "", look.strong),
        Segment(f"{files} by time on this clock; ~ arrival  ", look.dim),
    ]
    if unsure := workspace.opened.unsure_clocks(view):
        named = unsure[0] if len(unsure) == 1 else f"{len(unsure)} nodes"
        out.insert(1, Segment(f" {clean(named)}: clock offset uncertain by over 1 s ", look.badge["warning"]))
        out.insert(2, Segment(" "))
    return out
