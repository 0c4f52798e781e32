"""A driver that claims to be a terminal and keeps what it is sent, so strips become escape codes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from textual.drivers.headless_driver import HeadlessDriver

from gpuwatch.tui.app import GpuwatchApp


class CountingDriver(HeadlessDriver):
    """Keeps everything that was written."""

    written: list[str]

    @property
    def is_headless(self) -> bool:
        """Not at all, as far as textual can tell."""
        return False

    def write(self, data: str) -> None:
        """Keep it."""
        self.__dict__.setdefault("written", []).append(data)

    def flush(self) -> None:
        """Nothing waits."""


async def painted(app: GpuwatchApp) -> None:
    """Wait until the screen has been repainted once more."""
    done = asyncio.Event()
    app.screen.call_after_refresh(done.set)
    await done.wait()


@contextlib.asynccontextmanager
async def on_terminal(app: GpuwatchApp, size: tuple[int, int]) -> AsyncIterator[CountingDriver]:
    """Run the app on the driver; with a clock that stands still its own frames paint nothing."""
    app.driver_class = CountingDriver
    runner = asyncio.create_task(app.run_async(size=size))
    while not (app.is_running and app.screen.is_mounted and app.started):
        await asyncio.sleep(0.01)
    await painted(app)
    await painted(app)
    driver = app._driver
    assert isinstance(driver, CountingDriver)
    driver.written.clear()
    yield driver
    app.exit()
    await runner
