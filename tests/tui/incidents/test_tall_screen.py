"""A tall screen shows the culprit's plots and the lines around the cause below the text of the incident."""

from __future__ import annotations

from typing import TypeVar

import pytest
from textual.pilot import Pilot

from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.incidents.cause_lines import CauseLines
from gpuwatch.tui.incidents.culprit_plots import CulpritPlots
from gpuwatch.tui.incidents.screen import IncidentsScreen
from gpuwatch.tui.toolkit.lines.line_view import LineView
from gpuwatch.tui.toolkit.lines.live_screen import set_height
from gpuwatch.tui.toolkit.lines.rows import text_of
from gpuwatch.wire import LogLine
from tests.corpus.score import CORPUS
from tests.session.log_folder.folders import judged_folder
from tests.tui.still import StillSession, judged_session, still_app

Part = TypeVar("Part", bound=LineView)


def lines_of(part: LineView) -> list[str]:
    return [part.render_line(y).text.rstrip() for y in range(part.size.height)]


async def opened(pilot: Pilot[None], kind: type[Part]) -> Part:
    """Open screen 4 and return its part of this kind."""
    await pilot.press("4")
    await repainted(pilot)
    assert isinstance(pilot.app.screen, IncidentsScreen)
    return pilot.app.screen.query_one(kind)


async def repainted(pilot: Pilot[None]) -> None:
    for _ in range(2):
        pilot.app.pump()  # type: ignore[attr-defined]
        await pilot.pause()


def request_of(session: StillSession) -> LogStream:
    """The only request for lines that is open."""
    (stream,) = (each for each in session.fleet.streams.values() if each.kind == "read")
    return stream


def answer(stream: LogStream, cause: int, texts: dict[int, str]) -> None:
    """Answer with lines, by their distance in bytes from the cause."""
    for distance, text in texts.items():
        stream.lines.append(LogLine(offset=cause + distance, end=cause + distance + 1, text=text))
    stream.done = True


async def test_the_plots_of_the_culprit_have_the_mark_of_the_incident() -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(200, 60)) as pilot:
        plots = await opened(pilot, CulpritPlots)
        shown = lines_of(plots)
        assert "gpu-011 GPU 5" in shown[0]
        assert "LOST for 50s" in shown[0], "values of a lost GPU are not shown without their age"
        assert "✖ 08:00:45" in shown[-1]
        place, screen = plots.region, pilot.app.screen
        assert isinstance(screen, IncidentsScreen)
        assert screen.moments.region.bottom <= place.y
        assert place.bottom == screen.alerts.region.y
        await pilot.resize_terminal(160, 45)
        await repainted(pilot)
        assert not plots.display, "the timeline needs the room"
        assert screen.moments.region.bottom == screen.alerts.region.y
        moments = screen.moments
        shown = [text_of(row) for row in moments.build(moments.columns)]
        at = next(line for line, text in enumerate(shown) if "─ Ranks ─" in text)
        set_height(moments, at + 1)  # room for the heading alone
        await repainted(pilot)
        assert "─ Ranks ─" not in lines_of(moments)[-1], "a heading with nothing under it"


async def test_the_lines_around_the_cause_are_those_of_its_file() -> None:
    session = judged_session(95)
    app = still_app(session, 95)
    async with app.run_test(size=(200, 60)) as pilot:
        part = await opened(pilot, CauseLines)
        location = part.location()
        assert location is not None
        stream = request_of(session)
        assert (stream.node, stream.file) == (location.node, location.file)
        answer(stream, location.offset, {-9: "before \x1b[31m", 0: "NVRM: Xid 79", 9: "after"})
        await repainted(pilot)
        assert lines_of(part)[1:4] == ["   before �[31m", " ✖ NVRM: Xid 79", "   after"]


async def test_the_name_of_a_file_with_a_long_path_is_shown() -> None:
    with judged_folder(CORPUS / "failures" / "cuda-oom-rank5") as session:
        app = GpuwatchApp(session, clock=session.clock)
        async with app.run_test(size=(200, 60)) as pilot:
            part = await opened(pilot, CauseLines)
            assert "gpu-b03" in lines_of(part)[0]
            assert "rank5.log" in lines_of(part)[0]


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_smaller_screen_requests_no_lines(size: tuple[int, int]) -> None:
    session = judged_session(95)
    app = still_app(session, 95)
    async with app.run_test(size=size) as pilot:
        part = await opened(pilot, CauseLines)
        assert not part.display
        assert not [each for each in session.fleet.streams.values() if each.kind == "read"]


async def test_the_request_is_dropped_when_the_screen_is_left() -> None:
    session = judged_session(95)
    app = still_app(session, 95)
    async with app.run_test(size=(200, 60)) as pilot:
        await opened(pilot, CauseLines)
        request_of(session)
        await pilot.press("1")
        await pilot.pause()
        assert not [each for each in session.fleet.streams.values() if each.kind == "read"]
