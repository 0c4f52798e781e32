"""`i` explains what is under the cursor, and searches the playbook."""

from __future__ import annotations

from gpuwatch.rules.load import load_packs
from gpuwatch.tui.chrome.dialogs.explain_screen import ExplainPage, ExplainScreen
from gpuwatch.tui.fleet.screen import FleetScreen
from gpuwatch.tui.toolkit.cockpit import OpenRequest
from tests.tui.logs.log_desk import RANK_5, log_desk
from tests.tui.logs.log_nodes import story, with_finding
from tests.tui.scripted_alerts import demo_book
from tests.tui.still import demo_session, still_app


async def test_i_explains_the_metric_the_column_and_the_alert_under_the_cursor() -> None:
    session = demo_session(95, book=demo_book())
    session.packs = load_packs(())
    app = still_app(session, 95)
    async with app.run_test(size=(100, 30)) as pilot:
        shown = []
        for screen in ("1", "6", "4"):
            await pilot.press(screen)
            await pilot.pause()
            await pilot.press("i")
            await pilot.pause()
            assert isinstance(app.screen, ExplainScreen)
            shown.append(app.screen.query_one(ExplainPage).matches.exact)
            await pilot.press("i")
            await pilot.pause()
            assert not isinstance(app.screen, ExplainScreen)
        metric, _, alert = shown
        assert metric is not None
        assert (metric.ident, metric.kind) == ("util", "metric")
        assert alert is not None
        assert alert.kind in ("rule", "condition")


async def test_i_explains_the_problem_of_the_list_the_gpu_and_the_node() -> None:
    session = demo_session(95, book=demo_book())
    session.packs = load_packs(())
    app = still_app(session, 95)
    async with app.run_test(size=(120, 40)) as pilot:
        assert isinstance(app.screen, FleetScreen)
        app.screen.situation.focus()
        await pilot.press("home")
        await pilot.pause()
        assert app.screen.explained() == demo_book().incidents[0].code
        lost = next(gpu for gpu in session.fleet.nodes["gpu-011"].gpus.values() if gpu.info.index == 5)
        app.show_node("gpu-011", lost.info.uuid)
        await pilot.pause()
        assert app.screen.explained() == "gpu.xid.fell_off"
        app.show_gpu("gpu-011", lost.info.uuid)
        await pilot.pause()
        assert app.screen.explained() == "gpu.xid.fell_off"
        await pilot.press("i")
        await pilot.pause()
        page = app.screen.query_one(ExplainPage).matches.exact
        assert page is not None
        assert page.ident == "gpu.xid.fell_off"


async def test_i_explains_the_rule_of_the_line_under_the_cursor() -> None:
    session = story()
    finding = with_finding(session, "gpu-002", RANK_5, "torch.OutOfMemoryError", 5)
    async with log_desk(session) as desk:
        desk.app.show_logs(OpenRequest("gpu-002", RANK_5, offset=finding.offset))
        await desk.frames()
        assert desk.screen.explained() == finding.rule
        await desk.press("home")
        assert desk.screen.explained() == ""


async def test_the_playbook_is_searched_from_any_screen() -> None:
    session = demo_session(14)
    session.packs = load_packs(())
    app = still_app(session)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3", "i")
        await pilot.pause()
        assert isinstance(app.screen, ExplainScreen)
        page = app.screen.query_one(ExplainPage)
        assert {each.kind for each in page.matches.others} == {"topic"}
        await pilot.press("slash", *"link down", "enter")
        await pilot.pause()
        assert "net.nic.link" in [each.ident for each in page.matches.others]
        assert any("net.nic.link" in page.render_line(y).text for y in range(page.size.height))
        await pilot.press("escape")
        await pilot.pause()
        assert not isinstance(app.screen, ExplainScreen)
