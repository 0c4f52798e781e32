"""Cells of the heat map."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpuwatch.fleet.nodes.metrics import METRICS
from gpuwatch.tui.fleet.heat_cells import CellPainter, number_text
from gpuwatch.tui.fleet.heat_layout import CELL_WIDTHS
from gpuwatch.tui.model.node_summary import Overview
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.styles import build_styles
from tests.tui.screen_text import fleet_of
from tests.tui.still import NOW, demo_session, still_app


@pytest.mark.parametrize("severity", ["warning", "error", "critical"])
def test_the_cell_of_a_gpu_with_trouble_is_a_badge(severity: Severity) -> None:
    session, overview, look = demo_session(30), Overview(), build_styles()
    overview.refresh(session.fleet, NOW)
    view = overview.views["gpu-001"]
    gpu = next(iter(view.gpus))
    assert gpu.info is not None
    marked = replace(view, gpu_severity={**view.gpu_severity, gpu.info.uuid: severity})
    ((_, style),) = CellPainter(METRICS["util"], 6, look).cells(marked, [gpu], NOW)
    assert style == look.badge[severity]


@pytest.mark.parametrize("width", sorted({width for width, _ in CELL_WIDTHS if width > 1}))
def test_the_numbers_of_neighbours_do_not_touch(width: int) -> None:
    texts = [number_text(value, value / 100, width) for value in (0.0, 7.0, 42.0, 99.0, 100.0)]
    assert {len(text) for text in texts} == {width}
    for left in texts:
        for right in texts:
            assert len((left + right).split()) == 2, (left, right)


@pytest.mark.parametrize("metric", ["util", "temp"])
async def test_the_title_of_the_map_has_the_ends_of_the_scale_once_the_first_gpu_is_known(
    metric: str,
) -> None:
    session = demo_session(0.0)
    nodes = list(session.fleet.nodes.values())
    scale = METRICS[metric].scale(nodes[0].gpu_list()[0])
    assert scale is not None
    ends = tuple(METRICS[metric].format(end).strip() for end in scale)
    app = still_app(session)
    async with app.run_test(size=(120, 40)) as pilot:
        heat = fleet_of(app).heat
        heat.metric = METRICS[metric]
        gpus = [dict(node.gpus) for node in nodes]
        for node in nodes:
            node.gpus.clear()
            node.version += 1
        app.pump()
        await pilot.pause()
        before = heat.key(0), heat.render_line(0).text
        for node, own in zip(nodes, gpus, strict=True):
            node.gpus.update(own)
            node.version += 1
        app.pump()
        title = heat.render_line(0).text
        assert all(f" {end} " in title for end in ends)
        assert title == before[1] or heat.key(0) != before[0]  # else it is not painted again
