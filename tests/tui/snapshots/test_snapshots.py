"""Pictures of the screens at two sizes; `pytest tests/tui/snapshots -m long --update-snapshots` writes them.

A picture that changed is left beside the test's own folder as `NAME.svg`, to be looked at.
"""

from __future__ import annotations

import re
import time
from functools import partial
from pathlib import Path

import pytest

from tests.tui import still_probes
from tests.tui.logs.demo_nodes import demo_desk
from tests.tui.logs.log_desk import log_desk
from tests.tui.logs.log_nodes import story
from tests.tui.shots import Shot, svg_of

FOLDER = Path(__file__).parent
SIZES = ((80, 24), (160, 45))
SHOTS = (
    Shot("fleet", 14),
    Shot("straggler", 40, reported=True),
    Shot("incident", 95, reported=True),
    Shot("unhealthy", 52, keys=("exclamation_mark",)),
    Shot("node", 52, keys=("j", "j", "j", "j", "j", "enter"), reported=True),
    Shot("gpu", 52, keys=("enter", "enter"), reported=True),
    Shot("incidents", 95, keys=("4",), reported=True),
    Shot("incidents-none", 14, keys=("4",)),
    Shot("training", 40, keys=("6",), reported=True),
    Shot("links", 52, keys=("5",), probes=(still_probes.done,)),
    Shot("links-running", 52, keys=("5",), probes=(partial(still_probes.running, 0.45),)),
    Shot("help", 52, keys=("question_mark",)),
    Shot("columns", 52, keys=("C",)),
    Shot("jobs", 52, keys=("J",)),
    Shot("palette", 52, keys=("colon", *"rank 8")),
)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks show the same everywhere."""
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()


def compare(name: str, svg: str, update: bool, made: Path) -> None:
    """Compare a picture with the one that is kept, apart from the ids that Rich makes anew."""
    svg = re.sub(r"terminal-\d+", "terminal", svg)
    kept = FOLDER / f"{name}.svg"
    if update:
        kept.write_text(svg, encoding="utf-8")
        return
    if not kept.exists() or kept.read_text(encoding="utf-8") != svg:
        (made / kept.name).write_text(svg, encoding="utf-8")
        pytest.fail(f"{name} changed: look at {made / kept.name}, then --update-snapshots")


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
@pytest.mark.parametrize("shot", SHOTS, ids=lambda shot: shot.name)
async def test_a_screen_looks_as_it_was_approved(
    shot: Shot, size: tuple[int, int], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    svg = await svg_of(Shot(**{**vars(shot), "size": size}))
    name = f"{shot.name}-{size[0]}x{size[1]}"
    compare(name, svg, request.config.getoption("--update-snapshots"), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_logs_look_as_they_were_approved(
    size: tuple[int, int], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with log_desk(story(), size) as workspace:
        await workspace.type("c", "0-5")
        svg = workspace.app.export_screenshot(title="gpuwatch")
    compare(f"logs-{size[0]}x{size[1]}", svg, request.config.getoption("--update-snapshots"), tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size[0]}x{size[1]}")
async def test_the_merged_logs_of_an_incident_look_as_they_were_approved(
    size: tuple[int, int], request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    async with demo_desk(size) as workspace:
        await workspace.press("4", "m")
        await workspace.frames(12)
        await workspace.press("down")
        svg = workspace.app.export_screenshot(title="gpuwatch")
    compare(f"logs-merged-{size[0]}x{size[1]}", svg, request.config.getoption("--update-snapshots"), tmp_path)
