"""The line above the panes of a node that was never reached."""

from __future__ import annotations

from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.tui.node.header import NodeHeader
from tests.tui.screen_text import text_on
from tests.tui.still import NOW, StillSession, still_app

REASON = "the name gpu-009 does not resolve"


async def test_a_node_that_was_never_reached_is_unreachable_and_says_why_once() -> None:
    session = StillSession(Plan((NodeSpec("gpu-009"), NodeSpec("gpu-010"))))
    for phase in ("connecting", "lost"):
        session.fleet.apply(Arrival("gpu-009", NOW, LinkStatus(phase, reason=REASON)))
    app = still_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        app.show_node("gpu-009")
        await pilot.pause()
        app.pump()
        line = app.screen.query_one(NodeHeader).render_line(0).text
        assert "unreachable" in line
        assert "connecting" not in line
        assert text_on(app).count(REASON) == 1
