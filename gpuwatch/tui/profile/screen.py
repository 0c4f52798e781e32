"""The screen with a profile of a running rank."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.binding import BindingType

from gpuwatch.tui.chrome.page_screen import PageScreen
from gpuwatch.tui.model.session_protocol import Profiling
from gpuwatch.tui.profile.page import ProfilePage
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.toolkit.lines.selectable_lines import SelectableLines


class ProfileScreen(PageScreen):
    """The screen of one profile. If it is left, sampling continues, but the result is not shown."""

    kind = "profile"
    BINDINGS: ClassVar[list[BindingType]] = [*keys.PROFILE]
    page: ProfilePage

    def __init__(self, profiling: Profiling) -> None:
        super().__init__()
        self.page = ProfilePage(profiling)

    def arrange_parts(self) -> None:
        self.page.profiling.update()

    @on(SelectableLines.Chosen, "#profile")
    def action_start_profile(self) -> None:
        """Start sampling, if the cost is known and it has not started."""
        if self.page.profiling.ready:
            self.page.profiling.start()
            self.pull()
