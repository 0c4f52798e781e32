"""The base of pages about the probe that the links screen shows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from gpuwatch.probe.results import Results
from gpuwatch.tui.links.probe_view import LinkView
from gpuwatch.tui.toolkit.item_page import ItemPage, PageItem
from gpuwatch.tui.toolkit.rows import Row


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
