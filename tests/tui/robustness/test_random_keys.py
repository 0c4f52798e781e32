"""Keys, mouse, sizes and lost nodes at random never end the screens, and nothing that they do raises."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, closing
from functools import partial

import pytest

from gpuwatch.clock import SessionClock
from gpuwatch.hosts.builtin import demo_plan, local_plan
from gpuwatch.link.demo import links as demo
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.link.opening import Links
from gpuwatch.session import Session
from gpuwatch.session.log_folder.session import FolderSession
from gpuwatch.session.replay_session import ReplaySession
from tests.corpus.score import CORPUS
from tests.link.recording.recordings import recorded_demo
from tests.session.log_folder.folders import opened
from tests.tui.robustness.random_keys import EndlessApp, RandomKeys
from tests.tui.still import NOW, judged_session

LONG_S = 300.0
SHORT_S, SHORT_MOST_S, LEAST = 30.0, 90.0, 40
"""Seconds per session in `make test`; at most 90 where a slow machine does fewer than 40 gestures in 30."""
DEMO_BEGINS_S = 30.0
"""The second of the demo at which a short run begins: the slow rank and the fault come soon after."""
FOLDER = CORPUS / "failures" / "silent-worker-4-behind"
UNANSWERED = {"waiting", "acknowledge", "silence"}
"""Actions that a session that stands still has no answer to."""

LIVE: dict[str, Callable[[], Session]] = {
    "demo": lambda: Session(demo_plan()),
    "local": lambda: Session(local_plan()),
}
OPENED: dict[str, Callable[[], AbstractContextManager[ReplaySession | FolderSession]]] = {
    "recording": lambda: closing(ReplaySession(recorded_demo().path)),
    "folder": lambda: opened(FOLDER),
}


@pytest.fixture(params=LIVE)
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with closing(LIVE[request.param]()) as session:
        yield session


async def press(
    app: EndlessApp,
    seed: int,
    ends: Callable[[int, float], bool],
    without: Collection[str] = (),
    links: Links | None = None,
) -> None:
    """Press until `ends` is true of the gestures done and the seconds passed; a failure reports the gestures.

    `links`: those of the nodes that are lost and found meanwhile.
    """
    began, done = time.monotonic(), 0
    async with app.run_test(size=(120, 40)) as pilot:
        person = RandomKeys(app, pilot, seed, without, links)
        while not ends(done, time.monotonic() - began):
            try:
                await person.gesture()
            except Exception as error:
                pytest.fail(f"{error!r}\n{report(app, seed, person)}")
            done += 1
            if app.faults.count or app.crash is not None or not app.is_running:
                pytest.fail(report(app, seed, person))
    print(f"seed {seed}: {done} gestures in {time.monotonic() - began:.0f} s")


def after(seconds: float, *, least: int = 0, most_s: float = float("inf")) -> Callable[[int, float], bool]:
    """Return a test whether `seconds` have passed with `least` gestures, or `most_s` with fewer."""
    return lambda done, passed: passed > most_s or (passed > seconds and done >= least)


def links_of(session: Session) -> Links:
    """The links of a session, which its own remote ends may close at any time."""
    return session._links


def report(app: EndlessApp, seed: int, person: RandomKeys) -> str:
    """The seed and the last gestures, the faults that were counted, the exception that ended the app."""
    written = app.faults.file.read_text() if app.faults.file.exists() else ""
    return (
        f"seed {seed}, last gestures: {list(person.history)}\n"
        f"{app.faults.count} faults, crash {app.crash!r}, running {app.is_running}\n{written[-6000:]}"
    )


def random_seed() -> int:
    """Another one in each run."""
    return time.time_ns() % 1_000_000


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(3))
async def test_random_keys_over_an_incident(seed: int) -> None:
    app = EndlessApp(judged_session(95), clock=SessionClock(lambda: NOW, lambda: EPOCH + 95))
    await press(app, seed, lambda done, _: done >= 120, without=UNANSWERED)


@pytest.mark.timeout(600)
async def test_random_keys_for_a_minute_in_all(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "demo_links", partial(demo.demo_links, start_s=DEMO_BEGINS_S))
    app = EndlessApp(session, clock=session.clock)
    await press(app, 7, after(SHORT_S, least=LEAST, most_s=SHORT_MOST_S), links=links_of(session))


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_random_keys_for_minutes(session: Session) -> None:
    app = EndlessApp(session, clock=session.clock)
    await press(app, random_seed(), after(LONG_S), links=links_of(session))


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("source", OPENED)
async def test_random_keys_for_minutes_over_what_was_kept(source: str) -> None:
    with OPENED[source]() as session:
        await press(EndlessApp(session, clock=session.clock), random_seed(), after(LONG_S / 2))
