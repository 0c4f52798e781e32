"""The dialog that explains an alert, a metric or a column, and searches the playbook."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Input

from gpuwatch.blocks.model import Heading
from gpuwatch.diagnose.explanations.explanation import Explanation
from gpuwatch.diagnose.explanations.search import Matches, find
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.dialog import Dialog
from gpuwatch.tui.toolkit.lines.block_rows import painted
from gpuwatch.tui.toolkit.lines.item_page import PageItem, hanging
from gpuwatch.tui.toolkit.lines.rows import Row, heading, note
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage
from gpuwatch.tui.toolkit.styles import clean, fit

IDENT_COLUMNS = 24
ACTIONS = {
    "app.explain": "close",
    "app.help": "app.help",
    "app.quit": "close",
    "app.find": "search",
    "app.back": "close",
}
"""Key bindings of all screens that also work in this dialog, each with the action that it has here."""
HINTS = {"app.find": "Search", "app.back": "Close"}


class ExplainPage(RebuiltPage):
    """The page with one explanation and other matches, or with the list of matching ids."""

    def __init__(self, known: Sequence[Explanation], query: str) -> None:
        super().__init__(id="explain")
        self._known = known
        self.matches = Matches(None, ())
        self.ask(query)

    def ask(self, query: str) -> None:
        """Set the page to an id's explanation, or the matches of words. An empty query shows all topics."""
        topics = tuple(each for each in self._known if each.kind == "topic")
        self.matches = find(query, self._known) if query.strip() else Matches(None, topics)

    def build(self, width: int) -> list[Row]:
        look = self.look
        rows: list[Row] = [(Segment("Explain", look.title),)]
        shown, others = self.matches.exact, self.matches.others
        if shown is None and len(others) == 1:
            shown, others = others[0], ()
        if shown is not None:
            rows += [(), *self._whole(shown, width)]
            others = others[:5]
        if others:
            rows += [(), heading("Matches" if shown is None else "See also", width, look)]
            for each in others:
                head = (Segment(f" {fit(each.ident, IDENT_COLUMNS)} ", look.strong),)
                rows += hanging(head, clean(each.title), width, look.text)
        if shown is None and not others:
            rows += [(), note("nothing matches", look)]
        return rows

    def _whole(self, explanation: Explanation, width: int) -> list[Row]:
        look = self.look
        rows: list[Row] = [
            (
                Segment(clean(explanation.title), look.strong),
                Segment(f"  {explanation.kind} {explanation.ident}", look.dim),
            )
        ]
        for block in explanation.blocks:
            rows += [()] if isinstance(block, Heading) else []
            for part in painted([block], width, look):
                rows += part.rows if isinstance(part, PageItem) else [part]
        return rows


class ExplainScreen(Dialog[None]):
    """The dialog with an explanation, over the screen that opened it."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.with_actions(ACTIONS, HINTS)]

    def __init__(self, known: Sequence[Explanation], query: str) -> None:
        """Create the dialog for an id; an empty one lists the topics."""
        super().__init__()
        self.page = ExplainPage(known, query)
        self.field = Input(
            id="explain-search", placeholder="an id, or words: link down, nan loss", compact=True
        )

    def compose(self) -> ComposeResult:
        with Vertical(id="explain-box"):
            yield self.field
            yield self.page
        yield KeysLine()

    def on_mount(self) -> None:
        self.field.display = False
        self.page.focus()

    def action_search(self) -> None:
        self.field.display = True
        self.field.focus()

    def action_close(self) -> None:
        """Close the search if it is open, else the dialog."""
        if self.focused is not self.field:
            self.dismiss()
            return
        self.field.display = False
        self.page.focus()

    @on(Input.Changed)
    def _search(self, event: Input.Changed) -> None:
        self.page.ask(event.value)
        self.page.scroll_home(animate=False)
        self.page.pull()

    @on(Input.Submitted)
    def _found(self) -> None:
        self.page.focus()
