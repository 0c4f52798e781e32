"""Keys are handled while a frame of a large cluster is still being worked out."""

from __future__ import annotations

import asyncio

import pytest

from gpuwatch.fleet.stepwise import Steps
from tests.tui.counting import painted
from tests.tui.still import StillSession, demo_session, still_app


def slow_frames(session: StillSession, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Make each poll of the session go on until the returned list is cleared."""
    work = ["samples"]

    def polling() -> Steps[bool]:
        while work:
            yield
        return True

    monkeypatch.setattr(session, "polling", polling)
    return work


async def test_a_key_is_handled_while_a_frame_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    session = demo_session(11)
    app = still_app(session)
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        work = slow_frames(session, monkeypatch)
        frame = asyncio.create_task(app._pump_in_slices())
        app.simulate_key("4")
        while app.where != "incidents":
            await painted(app)
        assert not frame.done()
        work.clear()
        await frame


async def test_a_whole_frame_finishes_the_one_in_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    session = demo_session(11)
    app = still_app(session)
    async with app.run_test(size=(120, 30)) as pilot:
        await pilot.pause()
        work = slow_frames(session, monkeypatch)
        frame = asyncio.create_task(app._pump_in_slices())
        await painted(app)
        assert not frame.done()
        work.clear()
        app.pump()  # as a key does that changes what is shown
        await frame
