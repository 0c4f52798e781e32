"""The session over a recording: the same fleet and the same alerts, in recorded time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.node_limits import TooManyError
from gpuwatch.link.opening import Links
from gpuwatch.link.recording.player import Player
from gpuwatch.link.recording.reader import Recording
from gpuwatch.link.recording.records import BOOK, StreamRecord, content
from gpuwatch.link.recording.replay_link import ReplayLink
from gpuwatch.link.recording.tee import MICRO
from gpuwatch.link.stream.inbox import Arrival, Inbox
from gpuwatch.probe.orchestration.conductor import Conductor
from gpuwatch.session.recording.book_records import read_change
from gpuwatch.session.recording.recorded_book import RecordedBook
from gpuwatch.session.session import Session
from gpuwatch.wire import FrameError

SLICE_S = 0.05
"""Of real time that one poll takes records in for: a screen goes on meanwhile, and the replay is late."""


class ReplaySession(Session):
    """A session whose frames come from a file; nothing is asked of any node."""

    book: RecordedBook
    recorded = True

    def __init__(self, path: Path, real: Callable[[], float] = time.monotonic) -> None:
        """Open the recording; it stands at its beginning.

        Raises:
            RecordingError: it cannot be read.
        """
        self.recording = Recording(path)
        self.player = Player(self.recording, real)
        self.damaged = 0
        """Records that could not be taken in."""
        self._seeks = self.player.seeks
        super().__init__(self.recording.plan, clock=self.player.clock, links=self._replay_links)
        self._hang_queries = None
        self.book.clear()

    def _replay_links(self, inbox: Inbox) -> Links:
        numbers = {name: number for number, name in self.recording.nodes.items()}
        specs = [spec for spec in self.recording.plan.nodes if spec.name in numbers]
        return Links([ReplayLink(spec, numbers[spec.name], self.player, inbox) for spec in specs])

    def _new_book(self) -> AlertBook:
        return RecordedBook(self.packs, self.plan.thresholds)

    def poll(self) -> bool:
        """Take in what is due by now, for a slice of time at most."""
        self.player.advance()
        return self._take_due(time.perf_counter() + SLICE_S)

    def go_to(self, at: float) -> None:
        """Stand at a moment (unix seconds of recorded time); everything known is as it was then."""
        self.player.seek(round(at * MICRO))
        self._take_due(None)

    def step(self, seconds: float) -> None:
        """Move on by so much recorded time, or back."""
        if seconds < 0:
            self.player.seek(self.player.position + round(seconds * MICRO))
        else:
            self.player.skip(round(seconds * MICRO))
        self._take_due(None)

    def _take_due(self, until: float | None) -> bool:
        if self.player.seeks != self._seeks:
            self._seeks = self.player.seeks
            self.fleet = Fleet(self.plan).after(self.fleet)
            self.book.clear()
        moved = False
        for one in self.player.due():
            self._take_record(one)
            moved = True
            if until is not None and time.perf_counter() > until:
                self.player.hold(one.at)
                break
        answers = self.inbox.drain()
        for answer in answers:
            self.fleet.apply(answer)
        self.book.update(self.fleet, self.clock.monotonic(), self.clock.wall())
        return moved or bool(answers)

    def _take_record(self, one: StreamRecord) -> None:
        try:
            if one.kind == BOOK:
                self.book.take(read_change(one.body))
            elif one.node in self.recording.nodes:
                self.fleet.apply(Arrival(self.recording.nodes[one.node], one.at / MICRO, content(one)))
        except (FrameError, TooManyError, ValueError, LookupError, ArithmeticError, TypeError):
            self.damaged += 1  # shown in the timeline

    def _keep_silences(self) -> str | None:
        return None

    def probe(self, *_: object) -> Conductor:
        """Refuse it.

        Raises:
            NotRecordedError: always.
        """
        raise NotRecordedError("not in this recording: a probe needs the nodes")

    def __enter__(self) -> ReplaySession:
        self.start()
        return self

    def close(self) -> None:
        """Close the file."""
        self._links.close()
        with contextlib.suppress(Exception):
            self.recording.close()


class NotRecordedError(Exception):
    """What was asked needs a living node."""
