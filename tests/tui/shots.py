"""Pictures of the screens over the demo, with the clock held still; they make the README's screenshots.

    python -m tests.tui.shots FOLDER [NAME ...]

Each picture is an SVG, and a PNG too where chromium is installed.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.hosts.plan import Plan
from gpuwatch.probe.results import Results
from tests.tui import still_probes
from tests.tui.still import demo_session, judged_session, still_app


@dataclass(frozen=True)
class Shot:
    """One picture."""

    name: str
    second: float
    size: tuple[int, int] = (120, 40)
    keys: tuple[str, ...] = ()
    theme: str | None = None
    ascii_only: bool = False
    no_color: bool = False
    nodes: int = 16
    reported: bool = False
    """Whether the alerts are judged, too."""
    probes: tuple[Callable[[], Results], ...] = ()
    """Made in this session."""


PARTWAY = partial(still_probes.running, 0.45)

SHOTS = (
    Shot("fleet", 14),
    Shot("straggler", 40),
    Shot("incident", 52),
    Shot("incident-temp", 52, keys=("m", "m", "m")),
    Shot("after", 95),
    Shot("node", 52, keys=("j", "j", "j", "j", "j", "enter"), reported=True),
    Shot("small", 52, (80, 24)),
    Shot("small-node", 52, (80, 24), keys=("2",)),
    Shot("large", 52, (200, 60)),
    Shot("large-node", 52, (200, 60), keys=("2",), reported=True),
    Shot("help", 52, keys=("question_mark",)),
    Shot("palette", 52, keys=("colon",)),
    Shot("filter", 52, keys=("slash", *"temp>70")),
    Shot("unhealthy", 52, keys=("exclamation_mark",)),
    Shot("frozen", 52, keys=("p",)),
    Shot("ascii", 52, (80, 24), ascii_only=True),
    Shot("ascii-node", 52, (80, 24), keys=("2",), ascii_only=True),
    Shot("no-color", 52, no_color=True),
    Shot("light", 52, theme="gpuwatch-light"),
    Shot("nord", 52, theme="nord"),
    Shot("one", 14, (100, 30), nodes=1),
    Shot("one-node", 14, (100, 30), keys=("2",), nodes=1),
    Shot("node-host", 52, keys=("2", "v")),
    Shot("node-health", 52, keys=("j", "j", "j", "j", "j", "2", "V", "V")),
    Shot("node-events", 52, keys=("j", "j", "j", "j", "j", "2", "V")),
    Shot("gpu", 52, keys=("enter", "enter"), reported=True),
    Shot("incidents", 95, keys=("4",), reported=True),
    Shot("incidents-small", 95, (80, 24), keys=("4",), reported=True),
    Shot("incidents-large", 95, (200, 60), keys=("4",), reported=True),
    Shot("incidents-ascii", 95, (80, 24), keys=("4",), ascii_only=True, reported=True),
    Shot("incidents-no-color", 95, keys=("4",), no_color=True, reported=True),
    Shot("incidents-light", 95, keys=("4",), theme="gpuwatch-light", reported=True),
    Shot("incidents-none", 14, keys=("4",)),
    Shot("incidents-none-small", 14, (80, 24), keys=("4",)),
    Shot("fleet-reported", 95, reported=True),
    Shot("fleet-reported-small", 95, (80, 24), reported=True),
    Shot("links-start", 52, keys=("5",)),
    Shot("links-asking", 52, keys=("5",), probes=(still_probes.asking,)),
    Shot("links-asking-small", 52, (80, 24), keys=("5",), probes=(still_probes.asking,)),
    Shot("links-refused", 52, keys=("5",), probes=(still_probes.refused,)),
    Shot("links-running", 52, keys=("5",), probes=(PARTWAY,)),
    Shot("links-running-small", 52, (80, 24), keys=("5",), probes=(PARTWAY,)),
    Shot("links", 52, keys=("5",), probes=(still_probes.done,)),
    Shot("links-small", 52, (80, 24), keys=("5",), probes=(still_probes.done,)),
    Shot(
        "links-large",
        52,
        (200, 50),
        keys=("5",),
        probes=(partial(still_probes.done, 8), still_probes.refused, still_probes.done),
    ),
    Shot(
        "links-larger",
        52,
        (200, 60),
        keys=("5",),
        probes=(still_probes.asking, still_probes.refused, still_probes.done),
    ),
    Shot("links-running-large", 52, (200, 50), keys=("5",), probes=(PARTWAY,)),
    Shot("links-ascii", 52, (80, 24), keys=("5",), ascii_only=True, probes=(still_probes.done,)),
    Shot("links-no-color", 52, keys=("5",), no_color=True, probes=(still_probes.done,)),
    Shot("links-light", 52, keys=("5",), theme="gpuwatch-light", probes=(still_probes.done,)),
    Shot(
        "links-history",
        52,
        keys=("5", "V"),
        probes=(still_probes.asking, still_probes.refused, still_probes.done),
    ),
    Shot("links-nodes", 52, keys=("5", "v"), probes=(still_probes.done,)),
    Shot("links-ranks", 52, (160, 50), keys=("5", "z"), probes=(still_probes.done,)),
    Shot("links-rates", 52, keys=("5", "m"), probes=(still_probes.done,)),
    Shot("links-fleet", 52, probes=(still_probes.done,)),
    Shot("training", 40, (150, 44), keys=("6",), reported=True),
    Shot("training-stopped", 66, (120, 40), keys=("6",), reported=True),
    Shot("training-small", 40, (80, 24), keys=("6",), reported=True),
    Shot("training-small-ascii", 60, (80, 24), keys=("6",), ascii_only=True),
    Shot("training-no-color", 40, keys=("6",), no_color=True),
    Shot("training-light", 40, keys=("6",), theme="gpuwatch-light"),
    Shot("training-large", 40, (200, 60), keys=("6",), reported=True),
    Shot("nodes-64", 52, (160, 50), nodes=64),
    Shot("nodes-1024", 20, (200, 60), nodes=1024),
)


def plan_for(nodes: int) -> Plan:
    """The demo's plan with as many nodes as asked for."""
    plan = demo_plan()
    digits = max(3, len(str(nodes)))
    return replace(
        plan, nodes=tuple(replace(plan.nodes[0], name=f"gpu-{n:0{digits}}") for n in range(1, nodes + 1))
    )


async def svg_of(shot: Shot) -> str:
    """Run the app, press the keys, take the picture."""
    make = judged_session if shot.reported else demo_session
    session = make(shot.second, plan_for(shot.nodes))
    session.probes = [still_probes.StillProbing(results()) for results in shot.probes]
    app = still_app(
        session, shot.second, ascii_only=shot.ascii_only, theme=shot.theme, no_color=shot.no_color
    )
    async with app.run_test(size=shot.size) as pilot:
        await pilot.pause()
        for key in shot.keys:
            await pilot.press(key)
        await pilot.pause()
        await app.workers.wait_for_complete()
        app.clear_notifications()
        await pilot.pause()
        return app.export_screenshot(title="gpuwatch")


def to_png(svg: Path) -> None:
    """Draw the SVG with chromium, which has the right fonts for every glyph."""
    chromium = shutil.which("chromium")
    box = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg.read_text(encoding="utf-8"))
    if chromium is None or box is None:
        return
    width, height = (round(float(size)) for size in box.groups())
    subprocess.run(
        [
            chromium,
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--hide-scrollbars",
            f"--window-size={width},{height}",
            f"--screenshot={svg.with_suffix('.png')}",
            svg.resolve().as_uri(),
        ],
        check=True,
        capture_output=True,
        timeout=60,
    )


def main(arguments: Sequence[str]) -> None:
    """Make the pictures that were named, or all."""
    os.environ["TZ"] = "UTC"
    time.tzset()
    folder = Path(arguments[0])
    folder.mkdir(parents=True, exist_ok=True)
    for shot in SHOTS:
        if arguments[1:] and shot.name not in arguments[1:]:
            continue
        path = folder / f"{shot.name}.svg"
        path.write_text(asyncio.run(svg_of(shot)), encoding="utf-8")
        to_png(path)


if __name__ == "__main__":
    main(sys.argv[1:])
