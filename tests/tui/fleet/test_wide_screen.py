"""A wide fleet screen shows what is wrong and the job that trains beside the table."""

from __future__ import annotations

from msgspec.structs import replace
from textual.screen import Screen

from gpuwatch import wire
from gpuwatch.diagnose.health.remedies import REMEDIES
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.tui.fleet.selected_gpu import facts
from gpuwatch.tui.training.header import TrainingHead
from tests.tui.screen_text import fleet_of, text_on
from tests.tui.still import NOW, demo_session, judged_session, still_app


async def test_a_wide_screen_has_the_job_and_the_problems_beside_the_table() -> None:
    app = still_app(judged_session(95), 95)
    async with app.run_test(size=(200, 60)) as pilot:
        for _ in range(3):
            app.pump()
            await pilot.pause()
        fleet = fleet_of(app)
        head = fleet.query_one(TrainingHead)
        table, situation = fleet.table.region, fleet.situation.region
        assert table.right < situation.x == head.region.x
        assert head.region.bottom <= situation.y
        assert "job 418207" in text_on(app)
        assert "step 2,380" in " ".join(text_on(app).split())
        await pilot.resize_terminal(120, 40)
        app.pump()
        await pilot.pause()
        assert not head.display
        assert fleet.situation.region.y >= fleet.table.region.bottom


async def test_new_values_do_not_lay_the_screen_out_anew() -> None:
    """A layout in each frame was the dearest part of a wide screen with a job."""
    laid_out: list[Screen[object]] = []
    session = demo_session(30)
    app = still_app(session, second=30)
    async with app.run_test(size=(200, 60)) as pilot:
        for frame in range(12):
            if frame == 6:  # the job's panes have found their heights
                app.screen.screen_layout_refresh_signal.subscribe(app.screen, laid_out.append)
            for node in session.fleet.nodes.values():
                node.version += 1
            app.pump()
            await pilot.pause()
        assert app.screen.query_one("#training-curves").display
        assert laid_out == []


async def test_a_tall_wide_screen_has_the_plots_of_the_gpu_under_the_cursor_below_the_table() -> None:
    app = still_app(judged_session(58), 58)
    async with app.run_test(size=(200, 60)) as pilot:
        app.pump()
        await pilot.pause()
        fleet = fleet_of(app)
        table, plots = fleet.table.region, fleet.plots.region
        assert (table.bottom, table.right) == (plots.y, plots.right)
        assert table.height == 17  # the heading and all nodes
        assert plots.bottom == app.size.height - 1
        await pilot.press("l", "l")
        app.pump()
        lines = [fleet.plots.render_line(y).text for y in range(fleet.plots.size.height)]
        assert "gpu-001 GPU 2" in lines[0]
        assert sum("temperature" in line for line in lines) == 1
        assert "08:00:45" in lines[-1]  # the incident's mark on the time axis
        await pilot.resize_terminal(200, 40)
        app.pump()
        await pilot.pause()
        assert not fleet.plots.display
        assert fleet.table.region.height >= 17


async def test_problems_are_shown_whole_while_there_is_room() -> None:
    session = judged_session(58)
    host = session.fleet.nodes["gpu-004"].host
    assert host is not None
    full = replace(host, disks=[wire.Disk("/scratch", "lustre", 990, 1000)])
    session.fleet.apply(Arrival("gpu-004", NOW, wire.Sample(t=EPOCH + 58, seq=999, host=full)))
    app = still_app(session, 58)
    async with app.run_test(size=(200, 60)) as pilot:
        for size, whole in (((200, 60), True), ((80, 24), False)):
            await pilot.resize_terminal(*size)
            for _ in range(3):
                app.pump()
                await pilot.pause()
            situation = fleet_of(app).situation
            shown = " ".join(text_on(app).split())
            assert situation.at == 0  # on the incident
            assert (REMEDIES["disk_full"] in shown) == whole
            assert not whole or situation.count() <= situation.size.height


def test_no_value_of_the_gpu_under_the_cursor_moves_those_behind_it() -> None:
    session = demo_session(30)
    node = session.fleet.nodes["gpu-001"]
    gpu = node.gpu_list()[0]
    widths = set()
    for utilization, power, temperature in ((7.0, 98.0, 9.0), (100.0, 655.0, 84.0)):
        assert gpu.fast is not None
        gpu.fast = replace(gpu.fast, utilization_pct=utilization, power_w=power, temperature_c=temperature)
        widths.add(tuple(len(value) for _, value in facts(gpu, node, NOW)))
    assert len(widths) == 1
