"""The help screen, generated from the key bindings."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import ClassVar

from rich.segment import Segment
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.dialog import Dialog
from gpuwatch.tui.toolkit.lines.item_page import hanging
from gpuwatch.tui.toolkit.lines.rows import Row, heading, note
from gpuwatch.tui.toolkit.lines.selectable_lines import RebuiltPage
from gpuwatch.tui.toolkit.styles import fit

SIGNS: tuple[tuple[Severity, str], ...] = (
    ("ok", "healthy"),
    ("warning", "warning"),
    ("error", "failed"),
    ("critical", "critical"),
    ("unknown", "unknown"),
)

KEY_COLUMNS = 16
"""Width of the column of keys."""


def sections(kind: str, search: str, keymap: Mapping[str, str]) -> list[tuple[str, list[Binding]]]:
    """Return (title, bindings) of the tables of keys to show; tables without a match are left out.

    Args:
        kind: The kind of the screen that opened the help: its own keys come first.
        search: Words; a key is shown if its name, keys or meaning contain all of them. Empty: every key.
        keymap: The user's own keys, by the id of a binding.
    """
    words = search.lower().split()
    found = []
    for title, bindings in sorted(keys.SECTIONS, key=lambda each: each[0] != keys.SECTION_OF.get(kind)):
        own = [keys.rebound(each, keymap) for each in bindings]
        wanted = [each for each in own if all(word in _searched(title, each) for word in words)]
        found += [(title, wanted)] if wanted else []
    return found


def _searched(title: str, binding: Binding) -> str:
    parts = (title, binding.id or "", binding.description, keys.meaning(binding), *keys.shown(binding))
    return " ".join(parts).lower()


class HelpPage(RebuiltPage):
    """The page with every key, those of the current screen first, and a legend of the signs."""

    def __init__(self, kind: str, keymap: Mapping[str, str]) -> None:
        super().__init__(id="help")
        self.kind = kind
        self.keymap = keymap
        self.search = ""

    def build(self, width: int) -> list[Row]:
        rows: list[Row] = [
            (Segment("Keys", self.look.title),),
        ]
        for title, bindings in sections(self.kind, self.search, self.keymap):
            rows += [(), heading(title, width, self.look)]
            for binding in bindings:
                name = Segment(fit(" ".join(keys.shown(binding)), KEY_COLUMNS) + " ", self.look.strong)
                rows += hanging((name,), keys.meaning(binding), width, self.look.text)
        if len(rows) == 1:
            rows += [(), note("no key matches", self.look)]
        return rows if self.search else [*rows, (), heading("Signs", width, self.look), *self._signs()]

    def _signs(self) -> list[Row]:
        look, glyphs = self.look, self.look.glyphs
        rows: list[Row] = []
        for some in (SIGNS[:3], SIGNS[3:]):
            marks = [(look.mark(severity), Segment(f" {word}   ", look.dim)) for severity, word in some]
            rows.append(tuple(chain.from_iterable(marks)))
        rows.append(
            (
                Segment(glyphs.stuck, look.severity["warning"]),
                Segment(" driver call does not return    ", look.dim),
                Segment(glyphs.stale, look.stale),
                Segment(" last value before the node went silent", look.dim),
            )
        )
        rows.append(
            (
                Segment(glyphs.missing, look.dim),
                Segment(" filtered out or nothing to show    ", look.dim),
                Segment("-", look.text),
                Segment(" value unknown", look.dim),
            )
        )
        return rows


ACTIONS = {
    "app.help": "app.help",
    "app.quit": "app.back_or_quit",
    "app.find": "search",
    "app.back": "close",
}
"""Key bindings of all screens that also work in the help, each with the action that it has here."""
HINTS = {"app.find": "Search", "app.back": "Close"}


class HelpScreen(Dialog[None]):
    """The dialog with the help, over the screen that opened it."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys.with_actions(ACTIONS, HINTS)]

    def __init__(self, kind: str = "", keymap: Mapping[str, str] | None = None) -> None:
        """Create the help for a kind of screen; `keymap` has the user's own keys by binding id."""
        super().__init__()
        self.page = HelpPage(kind, keymap or {})
        self.field = Input(id="help-search", placeholder="words of a key's name or meaning", compact=True)

    def compose(self) -> ComposeResult:
        with Vertical(id="help-box"):
            yield self.field
            yield self.page
        yield KeysLine(field=("Apply", "Clear"))

    def on_mount(self) -> None:
        self.field.display = False
        self.query(HelpPage).focus()  # none is there when the app is ending

    def action_search(self) -> None:
        self.field.display = True
        self.field.focus()

    def action_close(self) -> None:
        """Close the search if it is open, else the help."""
        if not self.field.display:
            self.dismiss()
            return
        self.field.value = ""
        self.field.display = False
        self.page.focus()

    @on(Input.Changed)
    def _search(self, event: Input.Changed) -> None:
        self.page.search = event.value
        self.page.scroll_home(animate=False)
        self.page.pull()

    @on(Input.Submitted)
    def _found(self) -> None:
        self.page.focus()
