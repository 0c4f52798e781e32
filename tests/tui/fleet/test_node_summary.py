"""Which nodes a frame judges: those that moved, and a few of those whose judgement grew old."""

from __future__ import annotations

import subprocess
import sys

from gpuwatch import wire
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.tui.model.node_summary import Overview
from tests.tui.shots import plan_for
from tests.tui.still import NOW, demo_session


def test_without_news_and_time_nothing_is_judged_again() -> None:
    session, overview = demo_session(30), Overview()
    overview.refresh(session.fleet, NOW)
    before = dict(overview.views)
    assert not overview.refresh(session.fleet, NOW)
    assert all(overview.views[name] is view for name, view in before.items())


def test_news_judges_their_node_only() -> None:
    session, overview = demo_session(30), Overview()
    overview.refresh(session.fleet, NOW)
    before = dict(overview.views)
    session.fleet.apply(Arrival("gpu-003", NOW, wire.Sample(t=31.0, seq=1)))
    assert overview.refresh(session.fleet, NOW)
    assert [name for name, view in before.items() if overview.views[name] is not view] == ["gpu-003"]


def test_what_time_alone_moves_is_spread_over_frames_and_all_get_their_turn() -> None:
    session, overview = demo_session(3, plan_for(256)), Overview()
    overview.refresh(session.fleet, NOW)
    later, judged = NOW + 20, 0
    for frame in range(8):
        before = dict(overview.views)
        overview.refresh(session.fleet, later + frame / 8)
        fresh = sum(overview.views[name] is not view for name, view in before.items())
        assert fresh <= 32
        judged += fresh
    assert judged == 256
    assert {view.state for view in overview.views.values()} == {"stale"}


def test_the_screen_is_imported_without_numpy() -> None:
    code = "import sys, gpuwatch.session, gpuwatch.tui.app; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "False"


def test_the_first_paint_imports_no_screen_but_the_fleets() -> None:
    code = "import sys, gpuwatch.tui.app; print(*(n for n in sys.modules if n.startswith('gpuwatch.tui.')))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    screens = {name for name in done.stdout.split() if name.endswith("screen")}
    assert screens == {"gpuwatch.tui.fleet.screen", "gpuwatch.tui.toolkit.lines.live_screen"}
