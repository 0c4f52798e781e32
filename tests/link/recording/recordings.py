"""The demo's incident, recorded without waiting: session, tee and file are real, the clock is ours."""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from gpuwatch.clock import SessionClock
from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.hosts.plan import Plan
from gpuwatch.link.demo.links import EPOCH
from gpuwatch.link.opening import Links
from gpuwatch.link.recording.tee import IncidentMark
from gpuwatch.link.recording.writer import RecordingWriter
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.report.once.json_output import fleet_facts, to_json
from gpuwatch.report.once.problems.active import standing
from gpuwatch.session import Session
from tests.link.demo.story import frames_until

BEGAN = 5_000.0
"""Of the monotonic clock when the recording begins."""
STEP_S = 0.5


class PlayedSession(Session):
    """A session whose arrivals come from a list, at the pace of a clock that the test moves."""

    def __init__(self, plan: Plan, story: list[Arrival]) -> None:
        self.now = BEGAN
        super().__init__(
            plan,
            clock=SessionClock(lambda: self.now, lambda: EPOCH + self.now - BEGAN),
            links=lambda _: Links([]),
        )
        self._hang_queries = None
        self._story = story

    def run(self, until: float, step_s: float = STEP_S) -> None:
        """Poll every half second up to a second of the story."""
        while self.now < BEGAN + until:
            self.now += step_s
            while self._story and self._story[0].at <= self.now:
                self.inbox.put(self._story.pop(0))
            self.poll()


def demo_story(seconds: float) -> list[Arrival]:
    return list(frames_until(seconds, BEGAN + seconds))


class NoBook:
    """Alerts and incidents of a stream that nobody judges."""

    def change(self) -> None:
        return None

    def whole(self) -> bytes:
        return b"{}"

    def new_incidents(self, at: int) -> list[IncidentMark]:
        del at
        return []


@dataclass(frozen=True)
class RecordedDemo:
    """A minute of the demo."""

    path: Path
    incidents: Mapping[float, str]
    """Second -> the incidents as JSON, while it was recorded."""


@cache
def recorded_demo() -> RecordedDemo:
    """Made once a run, by the first test process that asks; nobody writes to it."""
    folder = Path(os.environ["XDG_CACHE_HOME"])  # tests/conftest.py makes it for this run
    path, kept = folder / "demo.gpw", folder / "demo.json"
    with (folder / "demo.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            seen: dict[float, str] = {}
            record_demo(path, 60, lambda session: seen.update({session.now - BEGAN: incidents(session)}))
            kept.write_text(json.dumps(list(seen.items())))
    return RecordedDemo(path, dict(json.loads(kept.read_text())))


def incidents(session: Session) -> str:
    """As `gpuwatch once --json` has them."""
    now, wall = session.clock.monotonic(), session.clock.wall()
    found = fleet_facts(session.fleet, [], now, wall, standing(session.book, session.fleet, now, wall))
    return to_json(found["incidents"])


def record_demo(
    path: Path, seconds: float = 60.0, watch: Callable[[PlayedSession], None] = lambda _: None
) -> PlayedSession:
    """Record so many seconds; `watch` is called after every five of them."""
    session = PlayedSession(demo_plan(), demo_story(seconds))
    tee = session.keep_stream()
    for part in (path, *(path.with_name(f"{path.name}{end}") for end in ("-wal", "-shm"))):
        part.unlink(missing_ok=True)  # of a test whose time ran out
    writer = RecordingWriter(path, session.plan, tee.nodes)
    try:
        detach = tee.attach(writer)
        for second in range(5, int(seconds) + 1, 5):
            session.run(second)
            watch(session)
        detach()
    finally:
        writer.close()
    assert not writer.state.trouble
    return session
