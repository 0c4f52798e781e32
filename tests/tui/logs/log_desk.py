"""The log screen with a person at the keys."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from textual.pilot import Pilot

from gpuwatch.link.demo.links import EPOCH
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.logs.screen import LogsScreen
from gpuwatch.tui.logs.widgets.pane import LogPane
from gpuwatch.tui.toolkit.lines.line_view import LineView
from tests.tui.logs.log_nodes import MIDNIGHT, LogSession
from tests.tui.still import NOW, still_app

RANK_5 = "/scratch/run7/logs/rank_5.log"


LATER = MIDNIGHT + 12 * 3600 + 1200


class Desk:
    """The app on the log screen, with a clock that the test moves."""

    def __init__(self, pilot: Pilot[None], app: GpuwatchApp, now: list[float]) -> None:
        self.pilot, self.app, self.now = pilot, app, now

    @property
    def screen(self) -> LogsScreen:
        assert isinstance(self.app.screen, LogsScreen)
        return self.app.screen

    @property
    def panes(self) -> list[LogPane]:
        return [pane for pane in self.screen.grid.panes if pane.display]

    async def frames(self, count: int = 3) -> None:
        for _ in range(count):
            self.now[0] += 0.5
            self.app.pump()
            await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        for key in keys:
            await self.pilot.press(key)
        await self.frames()

    async def type(self, key: str, text: str) -> None:
        await self.pilot.press(key)
        self.screen.prompt.field.value = text
        await self.pilot.pause()
        await self.press("enter")

    def text(self) -> str:
        lines = []
        for part in self.app.screen.query(LineView):
            if part.is_on_screen:
                lines += [part.render_line(y).text for y in range(part.size.height)]
        return "\n".join(lines)

    def under_cursor(self, pane: LogPane | None = None) -> str:
        view = (pane or self.screen.pane).view
        line = view.line() if view else None
        return line.text if line else ""


@contextlib.asynccontextmanager
async def log_desk(
    session: LogSession, size: tuple[int, int] = (120, 40), *, press: str = "3", ascii_only: bool = False,
    state_folder: Path | None = None,
) -> AsyncIterator[Desk]:  # fmt: skip
    now = [NOW]
    app = still_app(session, LATER - EPOCH, clock=lambda: now[0], ascii_only=ascii_only)
    app.state_folder = state_folder
    async with app.run_test(size=size) as pilot:
        workspace = Desk(pilot, app, now)
        if press:
            await workspace.press(press)
        yield workspace
