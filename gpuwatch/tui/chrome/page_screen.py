"""A screen that is one page between the status bar and the key hints."""

from __future__ import annotations

from textual.app import ComposeResult

from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.chrome.status_bar import StatusLine
from gpuwatch.tui.toolkit.lines.item_page import ItemPage
from gpuwatch.tui.toolkit.lines.live_screen import LiveScreen


class PageScreen(LiveScreen):
    """The base of screens with one page; subclasses set `page` before they are shown."""

    page: ItemPage

    def compose(self) -> ComposeResult:
        yield StatusLine(id="status")
        yield self.page
        yield KeysLine(self.kind)

    def on_mount(self) -> None:
        self.page.focus()
