"""The plots of a GPU have a time axis, and mark the moment of the incident."""

from __future__ import annotations

import re
import time

import pytest
from msgspec import structs

from gpuwatch.link.demo.links import EPOCH
from gpuwatch.tui.model.node_summary import summarise
from gpuwatch.tui.node.gpu_card import as_card
from gpuwatch.tui.node.gpu_plots import EDGE_CELLS, clock_text
from gpuwatch.tui.node.gpu_screen import GpuPlots
from gpuwatch.tui.node.gpu_subject import IncidentStart, Subject, mark_columns
from gpuwatch.tui.toolkit.lines.rows import text_of
from gpuwatch.tui.toolkit.styles import build_styles
from tests.tui.screen_text import text_on
from tests.tui.scripted_alerts import StillBook, demo_incident
from tests.tui.still import NOW, demo_session, still_app

SECOND, FAULT = 14, 4
CLOCK = re.compile(r"\d\d:\d\d:\d\d")


@pytest.mark.parametrize(("size", "ascii_only"), [((80, 24), True), ((200, 60), False)])
async def test_every_plot_marks_the_incident_over_one_axis(size: tuple[int, int], ascii_only: bool) -> None:
    incident = structs.replace(demo_incident(), first=EPOCH + FAULT)
    app = still_app(demo_session(SECOND, book=StillBook([incident])), SECOND, ascii_only=ascii_only)
    gpu = app.view_state.fleet.nodes["gpu-001"].gpu_list()[0]
    async with app.run_test(size=size) as pilot:
        app.show_gpu("gpu-001", gpu.info.uuid)
        await pilot.pause()
        plots = app.screen.query_one(GpuPlots)
        lines = [plots.render_line(y).text for y in range(plots.size.height)]
        axis = lines[-1]
        sign, line = ("X", "|") if ascii_only else ("✖", "│")
        at = axis.index(sign)
        cells = plots.columns - EDGE_CELLS - 1
        age_s = SECOND - FAULT
        assert clock_text(EPOCH + FAULT, 120.0) in axis
        assert abs(at - EDGE_CELLS - (cells - 1 - age_s * cells / 120)) <= 1
        assert len(CLOCK.findall(axis)) >= (1 if ascii_only else 2)
        assert sum(row[at] == line for row in lines[:-1]) >= 2 * 6  # two lines a plot at least
        await pilot.press("z")
        assert re.search(r"\d\d:\d\d(?!:)", plots.render_line(plots.size.height - 1).text)
        app.show_node("gpu-001")
        await pilot.pause()
        app.pump()
        await pilot.pause()
        assert ascii_only or re.search(rf"-90 s +now.*\n +util .*{line}", text_on(app))


def test_the_worst_of_two_incidents_in_one_column_is_marked() -> None:
    worst, other = (IncidentStart(time.time(), 30.0, each, each) for each in ("critical", "warning"))
    assert mark_columns([worst, other], 120.0, 60) == {44: worst}
    assert mark_columns([IncidentStart(0.0, 121.0, "critical", "critical")], 120.0, 60) == {}


def test_a_card_keeps_its_time_axis_when_the_ranks_have_ended() -> None:
    session = demo_session(SECOND)
    node = session.fleet.nodes["gpu-001"]
    gpu = node.gpu_list()[0]
    node.processes = []
    view = summarise(node, session.plan.thresholds, NOW)
    for rank in (4, 104):
        gpu.last_ranks, gpu.last_ranks_at = (rank,), NOW - 60
        (title, *_) = as_card(Subject(gpu, node, view, NOW), [], 78, build_styles(), chosen=False)
        assert f"rank {rank}," in text_of(title), text_of(title)
        assert re.search(r"-\d+ s +now", text_of(title)), text_of(title)
