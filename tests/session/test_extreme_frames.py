"""No frame that passes the wire's bounds raises an exception in the fleet, the alert book or a report."""

from __future__ import annotations

import base64
import io
import json
import random
import time
import zlib
from typing import Any, get_args

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.hang.ras.model import RasError
from gpuwatch.diagnose.hang.ras.reader import read_ras
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.pending_request import Asked
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.report.once.json_output import fleet_facts, to_json
from gpuwatch.report.once.problems.active import standing
from gpuwatch.report.once.problems.health import placed_conditions
from gpuwatch.report.once.tables import print_report
from gpuwatch.report.once.text import report
from gpuwatch.rules.load import Packs, load_packs
from gpuwatch.wire import FrameError, LongRequest, decode
from gpuwatch.wire.stacks import RasAnswer
from tests.wire.extreme_frames import Extremes

FRAMES = 400
WALL = 1.7e9


@pytest.fixture(scope="module")
def packs() -> Packs:
    return load_packs([])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("seed", range(8))
def test_extreme_frames_are_refused_or_processed(seed: int, packs: Packs) -> None:
    process(seed, packs)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_extreme_frames_of_ten_minutes_are_refused_or_processed(packs: Packs) -> None:
    end = time.monotonic() + 600.0
    while time.monotonic() < end:
        seed = random.getrandbits(32)
        try:
            process(seed, packs)
        except Exception as error:
            raise AssertionError(f"keep the seed {seed} among those of the suite") from error


def answers() -> list[type[Any]]:
    """The types of all answers to requests, by their docstrings."""
    every = (each for each in vars(wire).values() if isinstance(each, type))
    return [each for each in every if (each.__doc__ or "").startswith("The answer to `")]


def test_every_request_has_an_answer_of_a_known_type() -> None:
    stated = "".join(each.__doc__ or "" for each in answers())
    assert [one.__name__ for one in get_args(LongRequest) if f"`{one.__name__}`" not in stated] == []


@pytest.mark.parametrize("kind", answers())
def test_extreme_answers_are_read_or_refused_with_a_reason(kind: type[Any]) -> None:
    made, read = Extremes(1), 0
    for _ in range(FRAMES):
        asked = Asked("a", 1)
        asked.data = json.loads(json.dumps(made.part(kind)))
        answer, why = asked.read(kind)
        assert (answer is None) != (why is None)
        read += answer is not None
    assert read > FRAMES // 10


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("json", b"[" * 1_000_000),
        ("json", b'{"a":' * 100_000),
        ("json", b'{"nccl_version":' + b"9" * 100_000 + b"}"),
        ("json", b"null"),
        ("text", b"\0" * 1_000_000),
        ("text", b"Group 0\n" * 100_000),
        ("text", b"9" * 1_000_000),
    ],
)
def test_what_is_no_answer_of_ras_is_refused(form: str, words: bytes) -> None:
    packed = base64.b64encode(zlib.compress(words)).decode()
    with pytest.raises(RasError) as caught:
        read_ras(RasAnswer(address="a", packed=packed, format=form), "a")
    assert len(str(caught.value)) < 1000


def process(seed: int, packs: Packs) -> None:
    """Take frames of a seed into a fleet of two nodes, judge them and print reports."""
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
            stands, found = standing(book, fleet, now, WALL + now), placed_conditions(fleet, now)
            to_json(fleet_facts(fleet, found, now, WALL + now, stands))
            print_report(report(fleet, found, now, WALL + now, stands), io.StringIO())
    assert taken > FRAMES // 10, "most frames were refused: the test reached nothing"
