"""The header of a log pane: source, node, age, rate, and how many lines filters hide."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment

from gpuwatch.number_text import folded
from gpuwatch.tui.logs.data.buffer import Buffer
from gpuwatch.tui.logs.data.line_window import UNKNOWN
from gpuwatch.tui.logs.data.sources import HOW, file_of
from gpuwatch.tui.logs.data.viewport import View
from gpuwatch.tui.logs.widgets.line_painter import fit_list
from gpuwatch.tui.logs.workspace.workspace import LogWorkspace
from gpuwatch.tui.model.view_state import ViewState
from gpuwatch.tui.toolkit.styles import StyleSet, clean, fit, short_path
from gpuwatch.wire import KERNEL_LOG, LogFile

CUT_PARTS = 4
"""Segments of a header that may be cut: source, node, age, path. The others are whole, or left out."""
MAX_UNREAD = 48
"""Cells for which files of a merged view are not read, and why."""


def header(
    view: View, workspace: LogWorkspace, view_state: ViewState, look: StyleSet, last: int | None, width: int
) -> list[Segment]:
    """Return the header: the source on the left, problems and state on the right.

    Args:
        view: The pane's view.
        workspace: The open logs.
        view_state: The state of the files.
        look: The styles.
        last: Number of the last visible line; None: no line is visible.
        width: Cells of the header.
    """
    right = [*_trouble(view, view_state, look), *_state(view, look, last, workspace.key_of("move.last"))]
    room = width - sum(segment.cell_length for segment in right) - 1
    left = merged_words(view, workspace, look) if view.merged else file_words(view, view_state, look, room)
    out: list[Segment] = []
    for number, segment in enumerate(left):
        if room <= 3 or (number >= CUT_PARTS and segment.cell_length > room):
            break
        text = fit(segment.text, min(room, cell_len(segment.text)))
        out.append(Segment(text, segment.style))
        room -= cell_len(text)
    return [*out, Segment(" " * max(0, room)), *right]


def _age(buffer: Buffer, file: LogFile | None, wall: float) -> float | None:
    """Return the seconds since the newest line was written or received; None: unknown, or an empty file."""
    if file is not None and file.size == 0:
        return None
    grown = None if file is None else file.grown_at
    if buffer.live and buffer.times and buffer.times[-1] != UNKNOWN:
        grown = buffer.times[-1] if grown is None else max(grown, buffer.times[-1])
    return None if grown is None else max(0.0, wall - (grown - buffer.offset_s))


def _trouble(view: View, view_state: ViewState, look: StyleSet) -> list[Segment]:
    """Return the segments that state why lines are not shown; empty if nothing is wrong."""
    buffer = view.buffers[0]
    if view.merged:
        return _unread(view, view_state, look)
    file = file_of(view_state.fleet, buffer.source)
    if file is not None and file.state in ("unreadable", "gone"):
        words = file.reason or ("deleted; waiting for a new file" if file.state == "gone" else "unreadable")
        return [Segment(f" {clean(words)} ", look.badge["warning"])]
    error = _error(buffer, view_state)
    return [Segment(f" {clean(error)} ", look.badge["warning"])] if error else []


def _unread(view: View, view_state: ViewState, look: StyleSet) -> list[Segment]:
    """Return the segment with the number of merged files that are not read, and why the first is not."""
    failed = [each for each in view.buffers if _error(each, view_state)]
    if not failed:
        return []
    first = failed[0]
    more = "" if len(failed) == 1 else f"{len(failed)} not read; "
    words = fit(f"{more}{first.source.name} not read: {clean(_error(first, view_state))}", MAX_UNREAD)
    return [Segment(f" {words.rstrip()} ", look.badge["warning"])]


def _error(buffer: Buffer, view_state: ViewState) -> str:
    """Return why a file's lines could not be read; "" also for an empty file, which has none."""
    file = file_of(view_state.fleet, buffer.source) if buffer.error else None
    return "" if file is not None and file.size == 0 else buffer.error


def _state(view: View, look: StyleSet, last: int | None, follows: str) -> list[Segment]:
    """Return the segments for the pane's state: filtered, reading, following, or how far back it is.

    `follows` is the key that makes a paused pane follow its end.
    """
    feed = view.feed
    out: list[Segment] = []
    if view.sheet.narrowed and (feed.end > feed.base or not feed.reading):
        counts = f" {view.sheet.kept:,} of {feed.end - feed.base:,} lines "
        out.append(Segment(counts, look.severity["warning"]))
    if feed.reading:
        return [*out, Segment(" reading... ", look.severity["warning"])]
    if view.following:
        return [*out, Segment(" following ", look.title)]
    words = " paused"
    if isinstance(feed, Buffer) and feed.size and (line := view.line()) is not None:
        words += f" {min(100, 100 * line.end // feed.size)}%"
    if feed.live and last is not None:
        newer = feed.end - 1 - last
        words += f" {newer:,} below" if newer > 0 else ""
        words += f"; {follows} follows"
    return [*out, Segment(f"{words} ", look.severity["warning"])]


def file_words(view: View, view_state: ViewState, look: StyleSet, room: int) -> list[Segment]:
    """Return the segments for one file, the most important first: rank, node, GPU, age, rate, path."""
    buffer = view.buffers[0]
    source, file = buffer.source, file_of(view_state.fleet, buffer.source)
    age = _age(buffer, file, view_state.wall())
    named = (
        f" {'kernel log' if source.file == KERNEL_LOG else 'log'} "
        if source.rank is None
        else f" rank {source.rank} "
    )
    place = source.node if source.gpu is None else f"{source.node} GPU {source.gpu}"
    quiet = "no line yet" if age is None else view_state.ago(view_state.wall() - age)
    rate = buffer.rate(view_state.now)
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


def merged_words(view: View, workspace: LogWorkspace, look: StyleSet) -> list[Segment]:
    """Return the segments for merged files: ranks, number of files, order, and uncertain clocks."""
    buffers = view.buffers
    ranks = workspace.everyone(view)
    loaded = sum(bool(buffer.lines) for buffer in buffers)
    of_all = "" if loaded == len(buffers) else f"{loaded} of "
    files = f"{of_all}{len(buffers)} file{'s' * (len(buffers) != 1)}"
    out = [
        Segment(" merged ", look.title),
        Segment(f"{fit_list(ranks)}  " if ranks else "", look.strong),
        Segment(f"{files} by local time; ~ arrival  ", look.dim),
    ]
    if unsure := workspace.opened.unsure_clocks(view):
        named = unsure[0] if len(unsure) == 1 else f"{len(unsure)} nodes"
        out.insert(1, Segment(f" {clean(named)}: clock offset uncertain by over 1 s ", look.badge["warning"]))
        out.insert(2, Segment(" "))
    return out
