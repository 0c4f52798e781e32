"""The session over a recording: it has the same fleet and alerts, in recorded time."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.node_limits import TooManyError
from gpuwatch.fleet.stepwise import Steps
from gpuwatch.link.opening import Links
from gpuwatch.link.recording.playback.player import SPEEDS, Player
from gpuwatch.link.recording.playback.replay_link import ReplayLink
from gpuwatch.link.recording.reader import Recording
from gpuwatch.link.recording.records import BOOK, StreamRecord, content
from gpuwatch.link.recording.tee import MICRO
from gpuwatch.link.stream.inbox import Arrival, Inbox
from gpuwatch.probe.orchestration.conductor import Conductor
from gpuwatch.session.actions.running import RefusedActionError
from gpuwatch.session.recording.book_records import read_change
from gpuwatch.session.recording.finding_lines import finding_lines
from gpuwatch.session.recording.past_histories import PastHistories
from gpuwatch.session.recording.recorded_book import RecordedBook
from gpuwatch.session.session import Session
from gpuwatch.wire import AnyRequest, FrameError, Lines

if TYPE_CHECKING:
    from gpuwatch.diagnose.actions.action import Action, ActionTarget
    from gpuwatch.session.actions.execution import ActionRun

TAKE_CPU_S = 30.0
"""Most CPU seconds for the records of one seek or step; the remaining records count as unreadable."""
SLICE_S = 0.05
"""Seconds of real time for which one poll processes records; a replay that needs more lags behind."""


class ReplaySession(Session):
    """A session that plays a recording; it sends no requests to nodes."""

    book: RecordedBook
    recorded = True

    def __init__(self, path: Path, real: Callable[[], float] = time.monotonic) -> None:
        """Open the recording at its beginning.

        Raises:
            RecordingError: the recording cannot be read.
        """
        self.recording = Recording(path)
        self.player = Player(self.recording, real)
        self.refused = 0
        """Number of records that could not be applied."""
        self._seeks = self.player.seeks
        self._histories = PastHistories(self.recording, self.recording.plan, lambda: self.player.position)
        super().__init__(self.recording.plan, clock=self.player.clock, links=self._replay_links)
        self._hang_queries = None
        self.book.clear()
        self.book.restore(())  # silences of today do not apply to recorded alerts

    def _replay_links(self, inbox: Inbox) -> Links:
        numbers = {name: number for number, name in self.recording.nodes.items()}
        specs = [spec for spec in self.recording.plan.nodes if spec.name in numbers]
        return Links(
            [ReplayLink(spec, numbers[spec.name], self.player, inbox, self._lines_known) for spec in specs]
        )

    def _lines_known(self, node: str, request: AnyRequest) -> Lines | None:
        return finding_lines(self.fleet.findings.values(), node, request)

    def _new_book(self) -> AlertBook:
        return RecordedBook(self.packs, self.plan.thresholds)

    def polling(self) -> Steps[bool]:
        """Process the records that are due, for at most one time slice; return True if there were any."""
        yield from ()  # one step
        self.player.advance()
        moved = self._take_due(time.perf_counter() + SLICE_S)
        return self._histories.step(self.fleet) or moved

    def go_to(self, at: float) -> None:
        """Seek to a time (unix seconds of recorded time) and restore the state at that time."""
        self.player.seek(round(at * MICRO))
        self._take_due(None)

    def act(self, action: Action, target: ActionTarget) -> ActionRun:  # noqa: ARG002 - as of the live session
        """Raise `RefusedActionError`: a recording has no node to run an action on.

        Raises:
            RefusedActionError: always.
        """
        raise RefusedActionError(
            "actions are not possible in a recording: its nodes and ranks are those of the past"
        )

    @property
    def replay(self) -> ReplaySession:
        """This session itself: the screens control its position and speed."""
        return self

    @property
    def has_past(self) -> bool:
        """True once the plots show the time before the last seek (after some polls)."""
        return self._histories.whole

    @property
    def position(self) -> float:
        """Current position in recorded time (unix seconds)."""
        return self.player.position / MICRO

    @property
    def extent(self) -> tuple[float, float]:
        """First and last recorded time (unix seconds), as far as written."""
        return self.recording.first / MICRO, self.player.last / MICRO

    @property
    def speed(self) -> float:
        """Recorded seconds per real second."""
        return self.player.speed

    @property
    def playing(self) -> bool:
        """True while time advances, False while it is paused."""
        return self.player.playing

    @property
    def at_end(self) -> bool:
        """True if everything recorded so far was played."""
        return self.player.at_end

    @property
    def damaged(self) -> int:
        """Number of blocks and records that could not be read."""
        return self.recording.damaged + self.refused

    def incident_moments(self) -> Sequence[tuple[float, str]]:
        """Return (time first seen, severity) of each incident, oldest first."""
        return [(mark.at / MICRO, mark.severity) for mark in self.recording.incidents()]

    def density(self, columns: int) -> Sequence[int]:
        """Return the number of findings and events in each of `columns` equal parts of the recording."""
        return self.recording.density(columns)

    def pause(self) -> None:
        self.player.pause()

    def play(self) -> None:
        """Continue the replay; start from the beginning if the end was reached."""
        if self.player.at_end:
            self.player.seek(self.recording.first)
        self.player.play()

    def change_speed(self, steps: int) -> float:
        """Move by `steps` in the list of speeds (negative: slower); return the new speed."""
        at = min(len(SPEEDS) - 1, max(0, SPEEDS.index(self.player.speed) + steps))
        self.player.speed = SPEEDS[at]
        return self.player.speed

    def step(self, seconds: float) -> None:
        """Move by this many recorded seconds; negative: back."""
        if seconds < 0:
            self.player.seek(self.player.position + round(seconds * MICRO))
        else:
            self.player.skip(round(seconds * MICRO))
        self._take_due(None)

    def _take_due(self, until: float | None) -> bool:
        if self.player.seeks != self._seeks:
            self._seeks = self.player.seeks
            self.fleet = Fleet(self.plan, self.packs).after(self.fleet)
            self.book.clear()
            self._histories.begin()
        moved = False
        limit = time.thread_time() + (TAKE_CPU_S if until is None else math.inf)
        for one in self.player.due():
            self._take_record(one)
            moved = True
            if until is not None and time.perf_counter() > until:
                self.player.hold(one.at)
                break
            if time.thread_time() > limit:
                self.player.give_up()
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
            else:
                self.refused += 1
        except (FrameError, TooManyError, ValueError, LookupError, ArithmeticError, TypeError):
            self.refused += 1  # shown in the timeline

    def probe(self, *_: object) -> Conductor:
        """Raise `NotRecordedError`: a recording has no links to probe.

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
    """Raised for a request that needs a live node."""
