"""What raises in a paint, key, handler or timer costs its pane a repaint, never the cockpit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import pytest
from textual.pilot import Pilot

from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.chrome.help_screen import HelpScreen
from gpuwatch.tui.chrome.status_bar import StatusLine
from gpuwatch.tui.fleet.node_table import NodeTable
from gpuwatch.tui.fleet.screen import FleetScreen
from gpuwatch.tui.toolkit.faults import FaultLog, fault_file
from tests.tui.still import judged_session, still_app

pytestmark = pytest.mark.faults_expected


class PlantedError(Exception):
    """A fault that a test planted."""


def broken(*_arguments: object, **_named: object) -> NoReturn:
    raise PlantedError


async def press_and_wait(app: GpuwatchApp, pilot: Pilot[Any], *keys: str) -> None:
    await pilot.press(*keys)
    app.pump()
    await pilot.pause()


def header(app: GpuwatchApp) -> str:
    line = app.screen.query_one(StatusLine)
    return "".join(segment.text for segment in line.build(160)[0])


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("owner", "name", "keys"),
    [
        pytest.param(NodeTable, "row", (), id="a line"),
        pytest.param(NodeTable, "prepare", (), id="the lines of a pane"),
        pytest.param(NodeTable, "key", (), id="what a line depends on"),
        pytest.param(NodeTable, "on_focus", ("tab", "shift+tab"), id="a handler of a widget"),
        pytest.param(FleetScreen, "arrange_parts", (), id="the heights of a screen"),
        pytest.param(FleetScreen, "on_resize", (), id="a handler of a screen"),
        pytest.param(NodeTable, "action_move", ("down",), id="a key"),
        pytest.param(GpuwatchApp, "action_faster", ("plus",), id="a key of the app"),
        pytest.param(GpuwatchApp, "action_help", ("question_mark",), id="a key that opens a screen"),
    ],
)
async def test_the_cockpit_goes_on(
    owner: type, name: str, keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        app.screen.query_one(NodeTable).focus()
        before = app.screen.query_one(NodeTable).render_line(2).text
        with monkeypatch.context() as patch:
            patch.setattr(owner, name, broken)
            await press_and_wait(app, pilot, *keys)
            await pilot.resize_terminal(158, 45)
            await press_and_wait(app, pilot)
        assert app.faults.count
        assert "fault" in header(app)
        assert "Planted" in fault_file().read_text()
        await pilot.resize_terminal(160, 45)
        await press_and_wait(app, pilot)
        assert app.screen.query_one(NodeTable).render_line(2).text == before
        await press_and_wait(app, pilot, "4")
        assert app.where == "incidents"
    assert app.crash is None


@pytest.mark.sampled(1)
@pytest.mark.parametrize("step", ["poll", "lines"])
async def test_a_fault_is_shown_where_it_happened_and_counted_once_while_it_lasts(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = judged_session(95)
    app = still_app(session, 95)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        if step == "poll":
            monkeypatch.setattr(session, "poll", broken)
        else:
            monkeypatch.setattr(NodeTable, "prepare", broken)
        for _ in range(5):
            await press_and_wait(app, pilot)
        table = app.screen.query_one(NodeTable)
        assert ("node table" in table.render_line(0).text) == (step == "lines")
        assert app.faults.kinds == 1
        assert (app.faults.count == 1) == (step == "lines")


async def test_a_screen_that_cannot_be_made_leads_back_to_the_fleet(monkeypatch: pytest.MonkeyPatch) -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(160, 45)) as pilot:
        await pilot.pause()
        monkeypatch.setattr(HelpScreen, "compose", broken)
        await press_and_wait(app, pilot, "question_mark")
        await press_and_wait(app, pilot)
        assert (app.where, app.faults.count > 0, app.crash) == ("fleet", True, None)


async def test_where_no_screen_can_be_made_the_app_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FleetScreen, "compose", broken)
    app = still_app(judged_session(95), 95)
    with pytest.raises(PlantedError):
        async with app.run_test(size=(160, 45)) as pilot:
            while app.crash is None:
                await pilot.pause()


def test_a_fault_is_written_once_and_counted_each_time(tmp_path: Any) -> None:
    log = FaultLog(tmp_path / "deep" / "faults.log", lambda: 0.0)

    def fail() -> None:
        broken()

    for _ in range(3):
        add(log, fail)
    assert (log.count, log.kinds, log.file.read_text().count("1970-01-01T00:00:00Z")) == (3, 1, 1)
    assert log.file.stat().st_mode & 0o077 == 0


def add(log: FaultLog, step: Callable[[], None]) -> None:
    try:
        step()
    except PlantedError as error:
        log.add("log", error)


def test_a_fault_file_that_cannot_be_written_is_reported(tmp_path: Any) -> None:
    (tmp_path / "file").write_text("")
    log = FaultLog(tmp_path / "file" / "faults.log")
    try:
        broken()
    except PlantedError as error:
        assert "cannot be written" in log.add("pane", error)
    assert log.count == 1
