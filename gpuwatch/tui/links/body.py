"""The part below the head of the links screen, and its layout."""

from __future__ import annotations

from typing import Literal, TypeAlias

from textual.app import ComposeResult
from textual.containers import Container, Vertical
from textual.geometry import Size

from gpuwatch.tui.links.collectives import LinkTable
from gpuwatch.tui.links.link_detail import LinkCell
from gpuwatch.tui.links.matrix import WIDTHS, LinkMatrix
from gpuwatch.tui.links.new_probe import LinkProbes
from gpuwatch.tui.links.preflight import PreflightPage
from gpuwatch.tui.links.probe_view import LinkView
from gpuwatch.tui.links.verdict import LinkEvidence
from gpuwatch.tui.toolkit.lines.live_screen import set_height, set_width

Stage: TypeAlias = Literal["start", "inventory", "results"]
Pane: TypeAlias = Literal["link", "verdict", "collectives", "nodes", "probes"]
BESIDE_COLUMNS = 120
"""From this width, the verdict is beside the matrix."""
SHORT_ROWS = 32
"""Below this height, only one pane fits beneath the matrix."""
MAX_LISTED = 6
"""Maximum number of probes visible at once."""
MIN_RIGHT_WIDTH = 46
"""Columns that the verdict beside the matrix needs."""
MIN_MATRIX_HEIGHT = 8
CELL_LINES, SHORT_CELL_LINES = 9, 6


def panes(screen: Size, probes: int) -> tuple[Pane, ...]:
    """Return the panes that the pane key cycles through on a screen of this size.

    Panes that always have a place of their own are left out. `probes` is the number of probes.
    """
    some = ("probes",) if probes > 1 else ()
    if screen.width >= BESIDE_COLUMNS:
        return "verdict", "nodes", *some
    return (*(("link",) if screen.height < SHORT_ROWS else ()), "verdict", "collectives", "nodes", *some)


class LinkBody(Container):
    """The widget with the matrix and the selected link, and the verdict, collectives, nodes and probes."""

    def __init__(self, view: LinkView) -> None:
        super().__init__(id="link-body")
        self.view = view
        self.matrix = LinkMatrix(view)
        self.cell = LinkCell(self.matrix)
        self.table = LinkTable(view, id="collectives")
        self.evidence = LinkEvidence(view, id="evidence")
        self.inventory = PreflightPage(view, id="inventory")
        self.probes = LinkProbes(view)
        self.left = Vertical(self.matrix, self.cell, id="link-left")
        self.right = Vertical(self.table, self.evidence, self.inventory, self.probes, id="link-right")

    def compose(self) -> ComposeResult:
        yield self.left
        yield self.right

    def arrange_parts(self, stage: Stage, pane: Pane, screen: Size, room: int, probes: int) -> None:
        """Show or hide every part and set its size.

        Args:
            stage: The screen's current stage.
            pane: The pane beside or beneath the matrix.
            screen: The size of the whole screen.
            room: Lines left for the body.
            probes: Number of probes.
        """
        beside, short = screen.width >= BESIDE_COLUMNS, screen.height < SHORT_ROWS
        self.display = stage != "start" or bool(probes)
        self.set_class(stage == "results" and beside, "-beside")
        self.left.display = stage == "results" and self._has_links()
        if stage != "results":
            self.right.display = True  # the results of another probe may have hidden it
            self.inventory.display = stage == "inventory"
            self.table.display = self.evidence.display = False
            self._arrange_probes(shown=probes > (stage == "inventory"), room=room // 3)
            return
        self.table.prepare()
        tabled = bool(self.table.count())
        self.evidence.display = pane == "verdict"
        self.table.display = tabled and pane == ("verdict" if beside else "collectives")
        self.inventory.display = pane == "nodes"
        self.cell.display = not short or pane == "link" or beside
        self.right.display = pane != "link"
        if self.table.display:
            set_height(self.table, min(self.table.count(), room * 3 // 5) if beside else self.table.count())
        shown = probes > 1 and (pane == "probes" or (beside and room > SHORT_ROWS))
        self._arrange_probes(shown=shown, room=room // 3)
        if self.left.display:
            self._arrange_links(screen, room)

    def _has_links(self) -> bool:
        results = self.view.results
        return results is not None and len(results.slots) > 1 and results.request.pairs != "none"

    def _arrange_links(self, screen: Size, room: int) -> None:
        beside, cell = screen.width >= BESIDE_COLUMNS, 0
        if self.cell.display:
            cell = CELL_LINES if screen.height >= SHORT_ROWS else SHORT_CELL_LINES
        below = 0 if beside or not self.right.display else max(5, room // 3)
        self.matrix.room = max(MIN_MATRIX_HEIGHT, room - cell - below)
        self.matrix.prepare()
        set_width(self.left, self._matrix_width(screen.width) if beside else screen.width)
        height = min(self.matrix.room, self.matrix.count())
        set_height(self.matrix, height)
        cell = room - height - below if cell else 0
        set_height(self.cell, max(1, cell))
        set_height(self.left, room if beside else height + cell)

    def _matrix_width(self, width: int) -> int:
        """Return the matrix's width with the widest cells that leave `MIN_RIGHT_WIDTH` for the verdict.

        At least half of `width`; all but `MIN_RIGHT_WIDTH` if no cells fit.
        """
        label, size = self.matrix.shape.label, self.matrix.shape.size
        most = width - MIN_RIGHT_WIDTH
        wanted = next((label + size * cell for cell in WIDTHS if label + size * cell <= most), 0)
        return max(wanted, width // 2) if wanted else most

    def _arrange_probes(self, *, shown: bool, room: int) -> None:
        self.probes.display = shown
        if shown:
            self.probes.prepare()
            set_height(self.probes, max(2, min(MAX_LISTED + 1, self.probes.count(), room)))
