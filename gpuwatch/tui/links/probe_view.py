"""The probe that the links screen shows: a copy of its results, fixed for a frame, and its pages."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from msgspec.structs import replace

from gpuwatch.probe.results import Results
from gpuwatch.tui.links.matrix_model import LinkBoard, View
from gpuwatch.tui.model.session_protocol import Probing
from gpuwatch.tui.model.view_state import ViewState
from gpuwatch.tui.toolkit.lines.item_page import ItemPage, PageItem
from gpuwatch.tui.toolkit.lines.rows import Row


class LinkView:
    """The shown probe, shared by the widgets of the links screen; `refresh` copies changes once per frame."""

    def __init__(self, view_state: ViewState) -> None:
        self._view_state = view_state
        self.at: int | None = None
        """Index of the probe in the session's list; None: a new one is being selected."""
        self.results: Results | None = None
        self.board = LinkBoard()
        self.view: View = "nodes"
        self.version = 0
        """Increases when anything that is painted changed."""
        self.newer = False
        """True if the results are newer than the frozen view."""
        self._taken: tuple[int | None, int] | None = None

    @property
    def probing(self) -> Probing | None:
        """The shown probe; None while a new one is being selected, or if it no longer exists."""
        probes = self._view_state.session.probes
        return None if self.at is None or self.at >= len(probes) else probes[self.at]

    def show(self, at: int | None) -> None:
        """Show the probe with this index in the session's list; None: the choice of a new one."""
        if at != self.at:
            self.at, self.results, self._taken = at, None, None
            self.board = LinkBoard()
            self.version += 1
        self.refresh()

    def refresh(self) -> None:
        """Copy the results if they have changed; a frozen view keeps its copy."""
        probing = self.probing
        if probing is None:
            return
        taken = self.at, probing.results.version
        if taken == self._taken or (self._view_state.frozen and self.results is not None):
            return
        first = self.results is None or not self.results.slots
        self.newer = self.at is not None and self._view_state.outruns_freeze(self.at)
        self._taken, self.results = taken, still(probing.results)
        self.version += 1
        self.board.take(self.results)
        if first and self.results.slots:
            self.view = "nodes" if len(self.board.nodes) > 1 else "ranks"


def still(results: Results) -> Results:
    """Return a copy of the results that does not change; each list is copied in one step, without a lock.

    The pairs stay the writer's: there may be 100,000, and the board copies what is new.
    """
    return replace(
        results,
        nodes=list(results.nodes),
        busy=dict(results.busy),
        slots=list(results.slots),
        gone=dict(results.gone),
        unreachable=list(results.unreachable),
        collectives=list(results.collectives),
        gpus=dict(results.gpus),
        counters=list(results.counters),
        transports=dict(results.transports),
        notes=list(results.notes),
    )


class LinkPage(ItemPage):
    """A page that is rebuilt when the probe has changed or another one is shown."""

    def __init__(self, view: LinkView, *, id: str) -> None:  # noqa: A002 - textual's name
        super().__init__(id=id)
        self.view = view

    def made_for(self) -> Hashable:
        return self.view.version, self.view.at

    def parts(self, width: int) -> Iterable[Row | PageItem]:
        """Return the lines about the shown results; none while there are no results."""
        results = self.view.results
        return () if results is None else self.parts_of(results, width)

    def parts_of(self, results: Results, width: int) -> Iterable[Row | PageItem]:
        """Return all lines and items about these results; subclasses implement it."""
        raise NotImplementedError
