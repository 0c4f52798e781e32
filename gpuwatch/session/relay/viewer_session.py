"""The session of a viewer's process: it shows the fleet and alerts of the process that holds the links."""

from __future__ import annotations

import time

import msgspec
from msgspec import structs

from gpuwatch.clock import SessionClock
from gpuwatch.decode_errors import DECODE_ERRORS
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.node_limits import TooManyError
from gpuwatch.fleet.stepwise import Steps
from gpuwatch.hosts.plan import Plan
from gpuwatch.link.opening import Links
from gpuwatch.link.recording.parts import Inflater
from gpuwatch.link.recording.records import BOOK, StreamRecord, content, records_of
from gpuwatch.link.recording.tee import MICRO
from gpuwatch.link.relay.connection import RelayConnection, RelayLink
from gpuwatch.link.relay.messages import Answer, Packed, RelayError, ViewerChange
from gpuwatch.link.stream.inbox import Arrival, Inbox, LinkStatus
from gpuwatch.probe.orchestration.conductor import Conductor
from gpuwatch.session.actions.execution import ActionRun
from gpuwatch.session.recording.book_records import read_change
from gpuwatch.session.recording.recorded_book import RecordedBook
from gpuwatch.session.session import Session
from gpuwatch.wire import FrameError, Lines, Reply, decode

SLICE_S, FIRST_SLICE_S = 0.05, 1.0
"""Seconds for which one poll processes messages; the second value is for the first poll, with the past."""
MALFORMED = (FrameError, TooManyError, ValueError, LookupError, ArithmeticError, TypeError)
_plan: msgspec.json.Decoder[Plan] = msgspec.json.Decoder(Plan)


class NotHereError(Exception):
    """Raised for a request that needs the process that holds the links."""


class ViewerSession(Session):
    """A session whose stream comes from a relay, to which it sends its changes."""

    book: RecordedBook

    def __init__(self, connection: RelayConnection) -> None:
        """Create the session with the plan from the relay's opening message.

        Raises:
            RelayError: the message contains no valid plan.
        """
        self.connection = connection
        opening = connection.opening
        try:
            plan = _plan.decode(opening.plan)
        except DECODE_ERRORS as error:
            raise RelayError(f"no plan: {error}") from error
        self._names = opening.nodes
        self._dictionaries: dict[int, bytes] = {}
        self._inflater = Inflater(self._dictionaries.get)
        self._caught_up = False
        self.refused = 0
        """Number of records that could not be applied."""
        shift = opening.shift_s
        clock = SessionClock(lambda: time.monotonic() + shift, time.time)
        super().__init__(plan, clock=clock, links=self._relay_links)
        self._hang_queries = None
        self.book.clear()
        self.book.restore(())  # silences are those of the session that holds the links

    def _relay_links(self, _inbox: Inbox) -> Links:
        return Links([RelayLink(name, self.connection) for name in self._names.values()])

    def _new_book(self) -> AlertBook:
        return RecordedBook(self.packs, self.plan.thresholds)

    def start(self) -> None:
        """Process the past data that the relay has already sent."""
        self.poll()

    def polling(self) -> Steps[bool]:
        """Process what has arrived, for at most one time slice; return True if there was anything."""
        yield from ()  # one step
        until = time.perf_counter() + (SLICE_S if self._caught_up else FIRST_SLICE_S)
        moved = False
        while time.perf_counter() < until:
            message = self.connection.next()
            if message is None:
                self._caught_up = True
                break
            moved = True
            if isinstance(message, Packed):
                self._take_part(message)
            elif isinstance(message, Answer):
                self._take_answer(message)
        for stream in self.fleet.streams.values():
            if stream.broken:
                self._resume(stream)
        self.book.update(self.fleet, self.clock.monotonic(), self.clock.wall())
        return moved

    def _take_part(self, part: Packed) -> None:
        if part.what == "dictionary":
            self._dictionaries[part.at] = part.data
            return
        if part.what == "key":
            self._begin_again()
        for one in records_of(self._inflater.inflated(part.data), part.at, self._refuse):
            self._take_record(one, is_new=part.what == "block")

    def _refuse(self) -> None:
        self.refused += 1

    def _begin_again(self) -> None:
        """Reset the state before a key frame; this viewer's own requests stay."""
        before = self.fleet
        self.fleet = Fleet(self.plan, self.packs).after(before)
        self.fleet.streams, self.fleet.asked = before.streams, before.asked
        self.book.clear()

    def _take_record(self, one: StreamRecord, *, is_new: bool) -> None:
        try:
            if one.kind == BOOK:
                self.book.take(read_change(one.body))
            elif one.node in self._names:
                arrival = Arrival(self._names[one.node], one.at / MICRO, content(one))
                self.fleet.apply(arrival)
                if is_new and isinstance(arrival.what, LinkStatus):
                    self._link_changed(arrival.node, arrival.what)
        except MALFORMED:
            self.refused += 1

    def _take_answer(self, answer: Answer) -> None:
        try:
            frame = decode(self._inflater.inflated(answer.data).rstrip())
            if isinstance(frame, Lines | Reply):
                frame = structs.replace(frame, id=answer.id)
                self.fleet.apply(Arrival(answer.node, self.clock.monotonic(), frame))
        except MALFORMED:
            self.refused += 1

    def acknowledge(self, id: str) -> None:  # noqa: A002 - the word that alerts and incidents use
        """Request the acknowledgement of an alert or an incident."""
        self.connection.send(ViewerChange("acknowledge", id))

    def unacknowledge(self, id: str) -> None:  # noqa: A002 - the word that alerts and incidents use
        """Request the removal of an acknowledgement."""
        self.connection.send(ViewerChange("unacknowledge", id))

    def silence(
        self, code: str, *, node: str | None = None, gpu: int | None = None, rank: int | None = None,
        until: float | None = None,  # noqa: ARG002 - for ever, as by a key
    ) -> str | None:  # fmt: skip
        """Request a silence for all viewers; `until` is ignored. Returns None."""
        self.connection.send(ViewerChange("silence", code, node=node, gpu=gpu, rank=rank))
        return None

    def unsilence(
        self, code: str, *, node: str | None = None, gpu: int | None = None, rank: int | None = None
    ) -> str | None:
        """Request the removal of a silence. Returns None."""
        self.connection.send(ViewerChange("unsilence", code, node=node, gpu=gpu, rank=rank))
        return None

    def note(self, incident: str, text: str) -> str | None:
        """Request that a note is added to an incident. Returns None."""
        self.connection.send(ViewerChange("note", incident, text))
        return None

    def take_trouble(self) -> str | None:
        """Return None: the process that holds the links reports problems of storage."""
        return None

    def act(self, *_: object) -> ActionRun:
        """Raise `NotHereError`: viewers cannot run actions.

        Raises:
            NotHereError: always.
        """
        raise NotHereError("actions on nodes and ranks are only available in a terminal")

    def probe(self, *_: object) -> Conductor:
        """Raise `NotHereError`: viewers cannot start probes.

        Raises:
            NotHereError: always.
        """
        raise NotHereError("probes can only be started from a terminal: gpuwatch probe")

    def close(self) -> None:
        """Close the connection to the relay."""
        self.connection.close()
