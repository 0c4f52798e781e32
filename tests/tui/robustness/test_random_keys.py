"""Keys, mouse, sizes and lost nodes at random never end the screens, and nothing that they do raises."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator

import pytest

from gpuwatch.clock import SessionClock
from gpuwatch.hosts.builtin import demo_plan, local_plan
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.link.opening import Links
from gpuwatch.session import Session
from tests.tui.robustness.random_keys import EndlessApp, RandomKeys
from tests.tui.still import NOW, judged_session

LONG_S = 300.0
UNANSWERED = {"waiting", "acknowledge", "silence"}
"""Actions that a session that stands still has no answer to."""


@pytest.fixture(params=["demo", "local"])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    session = Session(demo_plan() if request.param == "demo" else local_plan())
    yield session
    session.close()


async def press(
    app: EndlessApp,
    seed: int,
    gestures: int,
    seconds: float = float("inf"),
    without: Collection[str] = (),
    links: Links | None = None,
) -> None:
    """Press until so many gestures are done, or for so long; fails with the seed and the last gestures.

    `links`: those of the nodes that are lost and found meanwhile.
    """
    deadline = time.monotonic() + seconds
    async with app.run_test(size=(120, 40)) as pilot:
        person = RandomKeys(app, pilot, seed, without, links)
        for _ in range(gestures):
            await person.gesture()
            if app.faults.count or app.crash is not None or not app.is_running:
                pytest.fail(f"seed {seed}, last gestures: {list(person.history)}\n{report(app)}")
            if time.monotonic() > deadline:
                break


def links_of(session: Session) -> Links:
    """The links of a session, which its own remote ends may close at any time."""
    return session._links


def report(app: EndlessApp) -> str:
    """The faults that were counted, the exception that ended the app, whether it still runs."""
    written = app.faults.file.read_text() if app.faults.file.exists() else ""
    return f"{app.faults.count} faults, crash {app.crash!r}, running {app.is_running}\n{written[-6000:]}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(3))
async def test_random_keys_over_an_incident(seed: int) -> None:
    app = EndlessApp(judged_session(95), clock=SessionClock(lambda: NOW, lambda: EPOCH + 95))
    await press(app, seed, 120, without=UNANSWERED)


@pytest.mark.parametrize("session", ["demo"], indirect=True)
async def test_random_keys_over_live_nodes(session: Session) -> None:
    await press(EndlessApp(session), 7, 80, links=links_of(session))


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_random_keys_for_minutes(session: Session) -> None:
    seed = time.time_ns() % 1_000_000
    await press(EndlessApp(session), seed, 1_000_000, LONG_S, links=links_of(session))
