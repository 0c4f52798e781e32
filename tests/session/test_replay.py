"""A recording shows the same fleet and the same incidents, however its moment is reached."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpuwatch.session.replay_session import ReplaySession
from tests.link.recording.recordings import incidents, recorded_demo


class Real:
    """The clock of this machine, which a test moves."""

    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def real() -> Real:
    return Real()


@pytest.fixture
def replay(real: Real) -> Iterator[ReplaySession]:
    with ReplaySession(recorded_demo().path, real) as session:
        yield session


def test_the_incident_of_the_demo_is_the_same_at_64_times_the_speed(
    replay: ReplaySession, real: Real
) -> None:
    replay.player.play(64.0)
    while not replay.player.at_end:
        real.now += 0.125
        replay.poll()
    assert recorded_demo().incidents[60.0] == incidents(replay)
    assert '"xid"' in recorded_demo().incidents[60.0]


@pytest.mark.parametrize("second", [15.0, 45.0, 60.0, 25.0])
def test_a_moment_that_is_jumped_to_shows_what_was_known_then(replay: ReplaySession, second: float) -> None:
    replay.go_to(replay.recording.first / 1e6 + second)
    assert incidents(replay) == recorded_demo().incidents[second]
