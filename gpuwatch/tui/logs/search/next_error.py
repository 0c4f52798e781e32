"""Jumps to the next error, warning or search hit.

Looked for among loaded lines, then known findings, then by a search on the node.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.tui.logs.data.buffer import Buffer
from gpuwatch.tui.logs.data.folding import Fold
from gpuwatch.tui.logs.data.viewport import View
from gpuwatch.tui.logs.search.node_search import Hit, LogSearch
from gpuwatch.tui.model.session_protocol import Searcher
from gpuwatch.wire import LogLine

ERRORS = r"\b(error|exception|traceback|fatal|critical|panic|segmentation fault|killed)\b"
WARNINGS = r"\b(warn|warning|error|exception|traceback|fatal|critical|panic)\b"
"""A pattern for the words of warnings in lines without a finding; the agent's own levels precede it."""


def is_bad(row: Fold, line: LogLine, *, warnings: bool) -> bool:
    """Return True if a row is a traceback or an error, or with `warnings` a warning."""
    if row.kind == "trace" or line.level in ("error", "critical"):
        return True
    return warnings and line.level == "warning"


def seek(view: View, step: int, wanted: Callable[[Fold, LogLine], bool]) -> bool:
    """Move to the next (1) or previous (-1) loaded row that is `wanted`; return False if there is none."""
    view.catch_up()
    rows = view.sheet.rows
    index = view.index + step
    while 0 <= index < len(rows):
        if wanted(rows[index], view.shown(index)):
            view.land(rows[index].key)
            view.cursor = rows[index].first
            return True
        index += step
    return False


def nearest(offsets: Iterable[int], buffer: Buffer, step: int) -> int | None:
    """Return the smallest offset after the loaded lines (step 1), or the largest before them (-1), else None.

    Without loaded lines, the smallest or the largest of all.
    """
    if not buffer.lines:
        return min(offsets, default=None) if step > 0 else max(offsets, default=None)
    if step > 0:
        return min((o for o in offsets if o >= buffer.lines[-1].end), default=None)
    return max((o for o in offsets if o < buffer.lines[0].offset), default=None)


def finding_offsets(fleet: Fleet, buffer: Buffer, *, warnings: bool) -> list[int]:
    """Return the byte offsets of findings in the buffer's file: errors, and with `warnings` also warnings."""
    bad = ("error", "critical", "warning") if warnings else ("error", "critical")
    place = (buffer.source.node, buffer.source.file)
    found = (reported.finding for reported in fleet.findings.values() if reported.node == place[0])
    return [finding.offset for finding in found if finding.file == place[1] and finding.severity in bad]


def none_left(step: int, what: str) -> str:
    """Return a text for the end of a search: `no more errors`, `no earlier matches`."""
    return f"no {'more' if step > 0 else 'earlier'} {what}{'es' if what == 'match' else 's'}"


def to_bad(
    view: View, step: int, fleet: Fleet, asker: Searcher, *, warnings: bool, offset_s: float
) -> PendingJump | str | bool:
    """Jump to the next (1) or previous (-1) error or warning.

    Args:
        view: The pane's view.
        step: The direction.
        fleet: Has the rules' findings.
        asker: Searches on the node if neither loaded lines nor findings have one.
        warnings: Include warnings.
        offset_s: The node's clock minus ours (seconds).

    Returns:
        True: the cursor is there. False: it will be, when the page is read. A PendingJump: the node is
            searching. Text: there is none.
    """
    if seek(view, step, lambda row, line: is_bad(row, line, warnings=warnings)):
        return True
    what = "warning" if warnings else "error"
    if view.merged:
        return none_left(step, what) + " in the loaded lines"
    buffer = view.buffers[0]
    offset = nearest(finding_offsets(fleet, buffer, warnings=warnings), buffer, step)
    if offset is not None:
        view.go(offset=offset)
        return False
    if (buffer.live or buffer.at_end) if step > 0 else buffer.at_start:
        return none_left(step, what) + " in this file"
    return PendingJump(asker, view, step, warnings=warnings, offset_s=offset_s)


def to_hit(view: View, step: int, search: LogSearch) -> str | bool:
    """Jump to the next (1) or previous (-1) search hit in this pane.

    Returns:
        True: the cursor is there. False: it will be, when the page is read. Text: there is none, or the node
            cannot search.
    """
    if seek(view, step, lambda _row, line: bool(search.pattern.search(line.text))):
        return True
    offset = None
    if not view.merged:
        offset = nearest(hit_offsets(search.hits, view.buffers[0]), view.buffers[0], step)
    if offset is None:
        shown = {buffer.source.node for buffer in view.buffers}
        refused = next((why for node, why in search.errors() if node in shown), "")
        return refused or none_left(step, "match") + " in this pane"
    view.go(offset=offset)
    return False


class PendingJump:
    """A search on the node for the next error or warning of one file, and the jump to it."""

    def __init__(self, asker: Searcher, view: View, step: int, *, warnings: bool, offset_s: float) -> None:
        self.what = "warning" if warnings else "error"
        self.view = view
        self.step = step
        self._buffer = view.buffers[0]
        source = self._buffer.source
        pattern = WARNINGS if warnings else ERRORS
        self._search = LogSearch(asker, pattern, {source.node: [source.file]}, {source.node: offset_s})

    @property
    def progress(self) -> float:
        """The progress of the search from 0 to 1."""
        return self._search.progress

    def pull(self) -> str | None:
        """Jump once the search has found the line; return None until then.

        Afterwards returns the text to show: "" after a jump, else why there was none.
        """
        self._search.pull()
        found = nearest((hit.offset for hit in self._search.hits), self._buffer, self.step)
        if self._search.running and (found is None or self.step < 0):
            return None
        self._search.cancel()
        errors = self._search.errors()
        if found is not None:
            self.view.go(offset=found)
            return ""
        if errors:
            return f"{errors[0][0]}: {errors[0][1]}"
        return none_left(self.step, self.what) + " in this file"

    def cancel(self) -> None:
        """Stop the search."""
        self._search.cancel()


def hit_offsets(hits: Iterable[Hit], buffer: Buffer) -> list[int]:
    """Return the byte offsets of search hits in the buffer's file."""
    return [hit.offset for hit in hits if (hit.node, hit.file) == (buffer.source.node, buffer.source.file)]
