"""The logs of an incident at the screen: one set under one name, merged, folded over ranks."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from gpuwatch.tui.logs.screen import LogsScreen
from gpuwatch.wire import KERNEL_LOG
from tests.tui.logs.demo_nodes import DemoLogs
from tests.tui.logs.log_nodes import LogSession
from tests.tui.logs.test_logs import Desk
from tests.tui.still import NOW, still_app

CULPRIT = 85


@contextlib.asynccontextmanager
async def demo_desk(
    size: tuple[int, int] = (120, 40), session: DemoLogs | LogSession | None = None
) -> AsyncIterator[Desk]:
    """The demo after its incident, on its first screen."""
    now = [NOW]
    app = still_app(session or DemoLogs(), 95, clock=lambda: now[0])
    async with app.run_test(size=size) as pilot:
        yield Desk(pilot, app, now)


def files(desk: Desk) -> list[tuple[str, int | None]]:
    assert isinstance(desk.app.screen, LogsScreen)
    return [(source.file, source.rank) for source in desk.screen.desk.sources]


async def test_three_shows_the_cause_the_culprit_and_the_first_followers_on_every_visit() -> None:
    async with demo_desk() as desk:
        await desk.press("3")
        shown = files(desk)
        assert shown[0] == (KERNEL_LOG, None)
        assert desk.screen.desk.sources[0].node == "gpu-011"
        ranks = [rank for _, rank in shown if rank is not None]
        assert ranks[0] == CULPRIT
        assert len(ranks) == 3
        name = desk.screen.desk.text
        await desk.press("minus", "3")
        assert (files(desk), desk.screen.desk.text) == (shown, name)
        await desk.type("c", "failed")
        assert (files(desk), desk.screen.desk.text) == (shown, name)
        await desk.press("minus", "4", "enter")  # the cause's line, from the incident
        assert set(files(desk)) == set(shown)
        assert desk.screen.desk.text == name
        incident = desk.app.scene.told.incidents[0]
        desk.app.scene.session.acknowledge(incident.id)
        await desk.press("minus", "minus", "3")
        assert set(files(desk)) == set(shown)
        await desk.type("c", "0-1")
        await desk.press("minus", "3")
        assert [rank for _, rank in files(desk)] == [0, 1]  # what the person chose since stays


async def test_m_merges_the_evidence_puts_the_cursor_on_the_cause_and_folds_the_followers() -> None:
    async with demo_desk() as desk:
        await desk.press("4", "m")
        await desk.frames(12)
        view = desk.screen.pane.view
        assert view is not None
        incident = desk.app.scene.told.incidents[0]
        assert incident.cause is not None
        proof = incident.cause.proof[0]
        source, number = view.feed.place(view.cursor)
        assert (source.node, source.file) == ("gpu-011", KERNEL_LOG)
        line = view.line()
        assert line is not None
        assert line.offset == proof.offset
        assert view.marked == (source, number)
        ruled = [spot for spot in view.layout(100, 400) if spot.ruled]
        assert [spot.text for spot in ruled] == ["+30.0 s"]
        folds = [row for row in view.sheet.rows if row.at > incident.first + 29]
        wide = [row for row in folds if len(row.ranks) == 127]
        assert len(wide) >= 2  # two patterns alternate
        assert all(row.ranks == set(range(128)) - {CULPRIT} for row in wide)
        assert view.sheet.rows[ruled[0].row].first_rank == wide[0].first_rank
        view.put_on(wide[0].first)
        rows = len(view.sheet.rows)
        await desk.press("enter")
        assert len(view.sheet.rows) == rows + 126
        await desk.press("enter")
        assert len(view.sheet.rows) == rows
