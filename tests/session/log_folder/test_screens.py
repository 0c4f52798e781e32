"""The screens over the logs of an ended job: from the fault to the line that proves it."""

from __future__ import annotations

from pathlib import Path

from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.fleet.screen import FleetScreen
from gpuwatch.tui.incidents.screen import IncidentsScreen
from gpuwatch.tui.logs.screen import LogsScreen
from gpuwatch.tui.toolkit.rows import text_of
from gpuwatch.tui.training.screen import TrainingScreen
from tests.corpus.score import CORPUS
from tests.session.log_folder.folders import judged_folder

FOLDER = CORPUS / "failures" / "cuda-oom-rank5"


def shown(app: GpuwatchApp) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text for strip in strips)


async def test_from_the_incident_to_its_line() -> None:
    with judged_folder(FOLDER) as session:
        app = GpuwatchApp(session, clock=session.clock.monotonic, wall=session.clock.wall)
        async with app.run_test(size=(140, 40)) as pilot:
            await pilot.pause()
            app.pump()
            assert isinstance(app.screen, FleetScreen)
            row = text_of(app.screen.table.row(1, 140))
            assert "gpu-b03" in row and "rank 5" in row
            assert not app.screen.heat.display
            await pilot.press("4")
            assert isinstance(app.screen, IncidentsScreen)
            await pilot.press("enter")
            assert isinstance(app.screen, LogsScreen)
            for _ in range(500):
                await pilot.pause(0.01)
                app.pump()
                if "OutOfMemoryError" in shown(app):
                    break
            assert "OutOfMemoryError" in shown(app)
            await pilot.press("6")
            assert isinstance(app.screen, TrainingScreen)
            app.pump()
            await pilot.pause()
            assert app.training.facts is not None
            assert {row.rank: row.step for row in app.training.facts.rows} == {0: 100, 5: 100}


async def test_what_needs_a_node_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rank_0.log").write_text("2024-05-03 08:00:00 step 1 loss 2.0\n")
    with judged_folder(tmp_path) as session:
        app = GpuwatchApp(session, clock=session.clock.monotonic, wall=session.clock.wall)
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.pause()
            for key in ("D", "5"):
                await pilot.press(key)
                assert isinstance(app.screen, FleetScreen)
                assert app._notifications
