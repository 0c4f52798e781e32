"""The screen of the hang query, which finds the ranks that the others wait for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from textual import on
from textual.binding import BindingType

from gpuwatch.tui.chrome.page_screen import PageScreen
from gpuwatch.tui.hang.report_page import WRITE, HangReportPage
from gpuwatch.tui.model.hang_query import Question
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.lines.selectable_lines import SelectableLines


class WaitingScreen(PageScreen):
    """The screen of one hang query and its answers as they arrive; leaving it does not stop the query."""

    kind = "waiting"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.WAITING]
    page: HangReportPage

    def __init__(self, question: Question) -> None:
        super().__init__()
        self.page = HangReportPage(question)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return False for the dump key in a replay, whose ranks cannot write files; else as Textual does."""
        if action == "write_dumps" and self.cockpit.view_state.replay is not None:
            return False
        return super().check_action(action, parameters)

    def idle(self) -> frozenset[str]:
        """Return the actions that do nothing now; `choose` works only on the item that requests dumps."""
        item = self.page.chosen()
        idle = set() if item is not None and item.key == WRITE else {"choose"}
        return frozenset(idle if self.page.may_write() else idle | {"write_dumps"})

    def labels(self) -> Mapping[str, str]:
        return {"waiting": "Refresh", "choose": "Trigger dumps"}

    def action_write_dumps(self) -> None:
        """Request fresh dumps from the ranks. They write files, so the query alone never does this."""
        why = self.page.question.write_dumps()
        if why:
            self.notify(why, timeout=5, markup=False)
        self.pull()

    @on(SelectableLines.Chosen, "#hang-report")
    def _choose(self) -> None:
        item = self.page.chosen()
        if item is not None and item.key == WRITE:
            self.action_write_dumps()

    def renew(self, question: Question) -> None:
        """Show another query on this screen."""
        self.page.question = question
        self.pull()
