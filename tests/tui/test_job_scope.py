"""`J`: one job alone on every screen, and the header says so."""

from __future__ import annotations

from msgspec import structs
from textual.widgets import OptionList

from tests.tui.screen_text import text_on
from tests.tui.still import StillSession, judged_session, still_app

SECOND = 95.0
OTHER, OWN = "900111", ("gpu-003", "gpu-004")


def two_jobs() -> StillSession:
    """The demo's session, where two nodes run a job of their own that is well."""
    session = judged_session(SECOND)
    for name, node in session.fleet.nodes.items():
        node.processes_at = (node.processes_at or 0.0) + 1
        if name in OWN:
            node.processes = [
                structs.replace(process, job=OTHER)
                for process in judged_session(40.0).fleet.nodes[name].processes
            ]
    return session


async def test_every_screen_shows_the_chosen_job_alone() -> None:
    app = still_app(two_jobs(), SECOND)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        everything = app.view_state.snapshot
        assert everything.incidents
        await pilot.press("J")
        await pilot.pause()
        choice = app.screen.query_one(OptionList)
        texts = [str(choice.get_option_at_index(at).prompt) for at in range(choice.option_count)]
        at = next(at for at, text in enumerate(texts) if OTHER in text)
        assert "16 ranks on 2 nodes" in " ".join(texts[at].split())
        choice.highlighted = at
        await pilot.press("enter")
        await pilot.pause()
        app.pump()
        await pilot.pause()
        shown = text_on(app)
        assert tuple(app.view_state.fleet.nodes) == OWN
        assert f"job {OTHER} alone" in shown
        assert "nodes ● 2 live" in shown
        assert "gpu-011" not in shown
        assert not app.view_state.snapshot.incidents
        assert all(alert.job in (None, OTHER) for alert in app.view_state.snapshot.alerts.values())
        await pilot.press("4")
        await pilot.pause()
        assert "gpu-011" not in text_on(app)
        await pilot.press("6")
        await pilot.pause()
        assert app.training.jobs == [OTHER]
        await pilot.press("3")
        await pilot.pause()
        assert {source.node for source in app.workspace.sources} <= set(OWN)
        await pilot.press("1", "p")  # frozen, it stays alone
        assert tuple(app.view_state.fleet.nodes) == OWN
        await pilot.press("p", "J", "home", "enter")
        await pilot.pause()
        app.pump()
        await pilot.pause()
        assert len(app.view_state.fleet.nodes) == 16
        assert app.view_state.snapshot is everything
        assert "alone" not in text_on(app)
