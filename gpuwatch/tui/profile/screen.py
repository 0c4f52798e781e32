"""The screen of `ctrl+t`: a profile of a running rank."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType

from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.chrome.status_bar import StatusLine
from gpuwatch.tui.model.session_protocol import Profiling
from gpuwatch.tui.profile.page import ProfilePage
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.live_screen import LiveScreen
from gpuwatch.tui.toolkit.selectable_lines import SelectableLines


class ProfileScreen(LiveScreen):
    """One profile. The sampling goes on when the screen is left; its answer is then not shown."""

    kind = "profile"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.PROFILE]

    def __init__(self, profiling: Profiling) -> None:
        super().__init__()
        self.page = ProfilePage(profiling)

    def compose(self) -> ComposeResult:
        """Status, page, footer."""
        yield StatusLine(id="status")
        yield self.page
        yield KeysLine(self.kind)

    def on_mount(self) -> None:
        """The page has the keys."""
        self.page.focus()

    def arrange_parts(self) -> None:
        """Take in what came."""
        self.page.profiling.update()

    @on(SelectableLines.Chosen, "#profile")
    def action_start_profile(self) -> None:
        """Sample, once the cost is known."""
        if self.page.profiling.ready:
            self.page.profiling.start()
            self.pull()
