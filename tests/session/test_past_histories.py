"""After a jump in a recording the plots reach back behind the key frame that the jump began with."""

from __future__ import annotations

import numpy as np

from gpuwatch.session.replay_session import ReplaySession
from tests.link.recording.recordings import recorded_demo

POLLS = 5_000


def utilization(session: ReplaySession) -> np.ndarray:
    """The last 40 s of all GPUs, a row each."""
    now = session.clock.monotonic()
    return np.array([gpu.history.series("util", 40, 40, now) for gpu in session.fleet.gpus()])


def test_the_plots_of_a_moment_show_the_time_before_it() -> None:
    with ReplaySession(recorded_demo().path, lambda: 0.0) as played:
        while not played.at_end:
            played.step(0.5)
            if played.position >= played.recording.first / 1e6 + 55.0:
                break
        wanted = utilization(played)
    with ReplaySession(recorded_demo().path, lambda: 0.0) as session:
        session.go_to(session.recording.first / 1e6 + 55.0)
        for _ in range(POLLS):
            session.poll()
            if session.has_past:
                break
        found = utilization(session)
    known = ~np.isnan(wanted)
    assert known.sum() > 0.9 * wanted.size
    assert (np.isnan(found) & known).sum() < 0.05 * wanted.size  # the ends of spread blocks
    both = known & ~np.isnan(found)
    assert np.median(np.abs(found[both] - wanted[both])) <= 5.0


def test_another_jump_begins_anew() -> None:
    with ReplaySession(recorded_demo().path, lambda: 0.0) as session:
        begin = session.recording.first / 1e6
        session.go_to(begin + 55.0)
        session.go_to(begin + 3.0)
        for _ in range(20):
            session.poll()
        series = [gpu.history.series("util", 40, 40, begin + 40.0) for gpu in session.fleet.gpus()]
    assert not np.isfinite([row[-30:] for row in series]).any()
