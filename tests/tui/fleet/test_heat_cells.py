"""Cells of the heat map."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from gpuwatch.fleet.nodes.metrics import METRICS
from gpuwatch.tui.fleet.heat_cells import CellPainter
from gpuwatch.tui.model.node_summary import Overview
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.styles import build_styles
from tests.tui.still import NOW, demo_session


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
