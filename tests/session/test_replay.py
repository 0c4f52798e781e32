"""A recording shows the same fleet and the same incidents, however its moment is reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.report.once.active import standing
from gpuwatch.report.once.json_output import fleet_facts, to_json
from gpuwatch.session import Session
from gpuwatch.session.replay_session import ReplaySession
from tests.recordings import BEGAN, PlayedSession, record_demo


def incidents(session: Session) -> str:
    now, wall = session.clock.monotonic(), session.clock.wall()
    found = fleet_facts(session.fleet, [], now, wall, standing(session.book, session.fleet, now, wall))
    return to_json(found["incidents"])


class Made:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.seen: dict[float, str] = {}
        record_demo(path, 60, self.watch)

    def watch(self, session: PlayedSession) -> None:
        self.seen[session.now - BEGAN] = incidents(session)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("recorded") / "demo.gpw")


class Real:
    """The clock of this machine, which a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def real() -> Real:
    return Real()


@pytest.fixture
def replay(made: Made, real: Real) -> Iterator[ReplaySession]:
    with ReplaySession(made.path, real) as session:
        yield session


def test_the_incident_of_the_demo_is_the_same_at_64_times_the_speed(
    made: Made, replay: ReplaySession, real: Real
) -> None:
    replay.player.play(64.0)
    while not replay.player.at_end:
        real.now += 0.125
        replay.poll()
    assert made.seen[60.0] == incidents(replay)
    assert '"xid"' in made.seen[60.0]


@pytest.mark.parametrize("second", [15.0, 45.0, 60.0, 25.0])
def test_a_moment_that_is_jumped_to_shows_what_was_known_then(
    made: Made, replay: ReplaySession, second: float
) -> None:
    replay.go_to(replay.recording.first / 1e6 + second)
    assert incidents(replay) == made.seen[second]
