"""The screens over the logs of an ended job: from the fault to the line that proves it."""

from __future__ import annotations

import gzip
import shlex
import zipfile
from pathlib import Path

from click.testing import CliRunner

from gpuwatch.cli.main import gpuwatch
from gpuwatch.fleet.logs.log_coverage import ranks_without_log
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.chrome.dialogs.columns_screen import ColumnsScreen
from gpuwatch.tui.chrome.key_hints import KeysLine
from gpuwatch.tui.fleet.node_columns import OF_LOGS
from gpuwatch.tui.fleet.screen import FleetScreen
from gpuwatch.tui.incidents.incident_timeline import parts_of, world_of
from gpuwatch.tui.incidents.screen import IncidentsScreen
from gpuwatch.tui.logs.screen import LogsScreen
from gpuwatch.tui.model.log_folder import NOT_IN_LOGS
from gpuwatch.tui.toolkit.lines.rows import text_of
from gpuwatch.tui.training.screen import TrainingScreen
from tests.corpus.score import CORPUS
from tests.session.log_folder.folders import judged_folder

FOLDER = CORPUS / "failures" / "cuda-oom-rank5"
ECC_TIME = "2026-08-16 17:40:11"
ECC_LINE = "RuntimeError: CUDA error: uncorrectable ECC error encountered"


def shown(app: GpuwatchApp) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join(strip.text for strip in strips)


def offered(app: GpuwatchApp) -> set[str]:
    """The actions in the line of key hints."""
    return {hint.action.partition("(")[0] for hint in app.screen.query_one(KeysLine).hints}


async def test_from_the_incident_to_its_line() -> None:
    with judged_folder(FOLDER) as session:
        app = GpuwatchApp(session, clock=session.clock)
        async with app.run_test(size=(140, 40)) as pilot:
            await pilot.pause()
            app.pump()
            assert isinstance(app.screen, FleetScreen)
            row = text_of(app.screen.table.row(1, 140))
            assert "gpu-b03" in row and "rank 5" in row
            assert not app.screen.heat.display
            await pilot.press("C")
            await pilot.pause()
            assert isinstance(app.screen, ColumnsScreen)
            assert app.screen.choice.selected == list(OF_LOGS)
            await pilot.press("escape", "4")
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
        app = GpuwatchApp(session, clock=session.clock)
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.pause()
            for key in ("D", "5"):
                await pilot.press(key)
                assert isinstance(app.screen, FleetScreen)
                assert app._notifications


async def test_a_finding_without_a_node_marks_the_unknown_node_and_its_rank(tmp_path: Path) -> None:
    text = f"{ECC_TIME} step 1 loss 2.0\n{ECC_TIME} [rank12]: {ECC_LINE}\n"
    (tmp_path / "rank12.log.gz").write_bytes(gzip.compress(text.encode()))
    with judged_folder(tmp_path) as session:
        (incident,) = session.book.incidents
        assert (incident.rank, incident.node) == (12, None)
        app = GpuwatchApp(session, clock=session.clock)
        sign = app.look.glyph(incident.severity)
        async with app.run_test(size=(140, 40)) as pilot:
            await pilot.pause()
            app.pump()
            assert isinstance(app.screen, FleetScreen)
            row = text_of(app.screen.table.row(1, 140))
            assert row.startswith(sign) and "rank 12" in row.partition("unknown node 12 ")[2]
            assert not {"waiting", "links", "next_mode"} & offered(app)
            key = app.key_of("move.open")
            assert f"{key} or " not in shown(app)
            await pilot.press("tab")
            app.pump()
            assert app.screen.situation.has_focus
            assert f"{key} or " in shown(app)
            await pilot.press("2")
            app.pump()
            await pilot.pause()
            header = shown(app).splitlines()[2]
            assert sign in header and not {"live", "age", "clock"} & set(header.split())
            assert "NVIDIA" not in shown(app) and NOT_IN_LOGS in header
            await pilot.press("6")
            app.pump()
            await pilot.pause()
            assert isinstance(app.screen, TrainingScreen)
            ranks = app.screen.ranks
            assert text_of(ranks.row(ranks.pinned, 140)).split()[:2] == [sign, "12"]
            assert "on unknown" in shown(app)


async def test_a_rank_without_a_log_is_not_called_free_of_errors() -> None:
    with judged_folder(FOLDER) as session:
        (incident,) = session.book.incidents
        world = world_of(incident, session.fleet)
        unlogged = ranks_without_log(session.fleet.nodes.values(), incident.job, world)
        parts = parts_of(incident, world, unlogged)
        assert [rank for rank, part in enumerate(parts) if part == "unlogged"] == [1, 2, 3, 4, 6, 7]
        assert (parts[0], parts[5]) == ("quiet", "cause")


async def test_evidence_of_a_folder_names_the_command_that_writes_it(tmp_path: Path) -> None:
    folder = tmp_path / "it's run 7"
    folder.mkdir()
    (folder / "rank_0.log").write_text(f"{ECC_TIME} {ECC_LINE}\n")
    with judged_folder(folder) as session:
        app = GpuwatchApp(session, clock=session.clock)
        async with app.run_test(size=(200, 30)) as pilot:
            await pilot.pause()
            await pilot.press("ctrl+s")
            (notice,) = app._notifications
    command = notice.message[notice.message.index("gpuwatch evidence") :]
    argv = shlex.split(command)
    assert argv[:3] == ["gpuwatch", "evidence", str(folder)]
    out = CliRunner().invoke(gpuwatch, [*argv[1:-1], str(tmp_path / argv[-1])])
    assert out.exit_code == 0 and zipfile.is_zipfile(tmp_path / argv[-1])
