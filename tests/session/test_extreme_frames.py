"""No frame that passes the wire's bounds raises an exception in the fleet, the alert book or a report."""

from __future__ import annotations

import io
import json

import pytest

from gpuwatch.diagnose.book import AlertBook
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.inbox import Arrival, LinkStatus
from gpuwatch.report.facts import fleet_facts, to_json
from gpuwatch.report.standing import standing
from gpuwatch.report.terminal import print_report
from gpuwatch.report.text import report
from gpuwatch.report.verdict import findings
from gpuwatch.rules.load import Packs, load_packs
from gpuwatch.wire import FrameError, decode
from tests.wire.extreme_frames import Extremes

FRAMES = 400
WALL = 1.7e9


@pytest.fixture(scope="module")
def packs() -> Packs:
    return load_packs([])


@pytest.mark.parametrize("seed", range(8))
def test_extreme_frames_are_refused_or_processed(seed: int, packs: Packs) -> None:
    plan = Plan(nodes=(NodeSpec("a"), NodeSpec("b")), source="test")
    fleet, book, made = Fleet(plan), AlertBook(packs, plan.thresholds), Extremes(seed)
    taken = 0
    for node in fleet.nodes:
        fleet.apply(Arrival(node, 0.0, LinkStatus("live")))
    for number in range(FRAMES):
        now = float(number)
        line = json.dumps(made.frame()).encode()
        try:
            frame = decode(line)
        except FrameError:
            continue
        taken += 1
        fleet.apply(Arrival("ab"[number % 2], now, frame))
        book.update(fleet, now, WALL + now)
        if number % 40 == 0:
            stands, found = standing(book, fleet, WALL + now), findings(fleet, now)
            to_json(fleet_facts(fleet, found, now, WALL + now, stands))
            print_report(report(fleet, found, now, WALL + now, stands), io.StringIO())
    assert taken > FRAMES // 10, "most frames were refused: the test reached nothing"
