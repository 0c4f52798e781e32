"""A session that stands still: the demo as it was at one second, or whatever arrivals a test hands over."""

from __future__ import annotations

import copyreg
import io
import pickle
import struct
from collections.abc import Callable, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any, Literal

from msgspec import structs

from gpuwatch.clock import SessionClock
from gpuwatch.diagnose.actions.action import Action, ActionTarget
from gpuwatch.diagnose.alert_book import AlertBook
from gpuwatch.diagnose.model.failure_classes import RulePacks
from gpuwatch.diagnose.model.incident import IncidentNote
from gpuwatch.diagnose.training.job_view.rank_placement import PlacedRank, RankPlacement
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.fleet.stepwise import Steps
from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.hosts.plan import Plan
from gpuwatch.link.demo.links import EPOCH, arrivals
from gpuwatch.link.stream.inbox import Arrival
from gpuwatch.probe.probe_request import ProbeRequest
from gpuwatch.probe.results import Results
from gpuwatch.rules.load import Packs, load_packs
from gpuwatch.session.actions.execution import ActionRun
from gpuwatch.session.actions.running import RefusedActionError, refuse_unless_possible
from gpuwatch.tui.app import GpuwatchApp
from gpuwatch.tui.model.alert_snapshot import Book
from tests.link.demo.story import frames_until
from tests.tui.scripted_alerts import StillBook

NOW = 10_000.0

copyreg.pickle(struct.Struct, lambda made: (struct.Struct, (made.format,)))  # rings have one


class StillSession:
    """What the app needs of a session; nothing arrives unless a test puts it into `waiting`."""

    def __init__(
        self, plan: Plan, delivered: Sequence[Arrival] = (), book: Book | None = None,
        fleet: Fleet | None = None,
    ) -> None:  # fmt: skip
        self.plan = plan
        self.packs: RulePacks = SimpleNamespace(by_id=dict.fromkeys(map(str, range(170))))
        self.book: Any = StillBook() if book is None else book
        self.fleet = Fleet(plan) if fleet is None else fleet
        self.started = 0
        self.waiting: list[Arrival] = []
        self.retried: list[str | None] = []
        self.entered: list[str] = []
        self.streams = 0
        self.query: Any = None
        self.probes: list[Any] = []
        self.requested: list[ProbeRequest] = []
        for arrival in delivered:
            self.fleet.apply(arrival)

    def start(self) -> None:
        """Count the calls."""
        self.started += 1

    def note(self, ident: str, text: str) -> str | None:
        """Keep it with the incident."""
        note = IncidentNote(EPOCH, "alice@login-1", text)
        self.book.version += 1
        self.book.incidents = [
            structs.replace(each, notes=(*each.notes, note)) if each.id == ident else each
            for each in self.book.incidents
        ]
        return None

    def take_trouble(self) -> str | None:
        """Nothing is kept."""

    def probe(self, request: ProbeRequest) -> Any:
        """Keep which; a test that wants it measured puts results in."""
        self.requested.append(request)
        self.probes.append(
            SimpleNamespace(results=Results(request=request, started=EPOCH), keeps_ranks=False)
        )
        return self.probes[-1]

    def inquire(self) -> Any:
        """Nobody answers: a test that wants answers puts an query in."""
        return self.query

    def profile(self, places: Sequence[PlacedRank], placement: RankPlacement) -> Any:
        """No rank can be sampled: a test that wants one puts its own method in."""
        raise AssertionError((places, placement))

    def act(self, action: Action, target: ActionTarget) -> ActionRun:
        """Run nothing, as the session of the demo."""
        refuse_unless_possible(action, target, self.fleet)
        raise RefusedActionError("this session stands still")

    def enter(self, node: str) -> None:
        """Keep which node it was."""
        self.entered.append(node)

    def retry(self, node: str | None = None) -> None:
        """Keep which node it was."""
        self.retried.append(node)

    def acknowledge(self, ident: str) -> None:
        """The book does."""
        self.book.acknowledge(ident, on=True)

    def unacknowledge(self, ident: str) -> None:
        """The book does."""
        self.book.acknowledge(ident, on=False)

    def silence(
        self, code: str, *, node: str | None = None, gpu: int | None = None, rank: int | None = None
    ) -> None:
        """The book does."""
        self.book.silence(code, node, gpu, rank, on=True)

    def unsilence(
        self, code: str, *, node: str | None = None, gpu: int | None = None, rank: int | None = None
    ) -> None:
        """The book does."""
        self.book.silence(code, node, gpu, rank, on=False)

    def tail(self, node: str, file: str, lines: int = 200) -> LogStream:  # noqa: ARG002 - nobody answers
        """A tail of a node that does not answer."""
        return self.unanswered(node, file, "tail")

    def read_lines(
        self, node: str, file: str, *, offset: int | None = None, time: float | None = None, before: int = 0,
        after: int = 0,
    ) -> LogStream:  # fmt: skip
        """A page of a node that does not answer."""
        del offset, time, before, after
        return self.unanswered(node, file, "read")

    def search(
        self, node: str, pattern: str, files: Sequence[str] = (), *, ignore_case: bool = False
    ) -> LogStream:
        """A search on a node that does not answer."""
        del pattern, files, ignore_case
        return self.unanswered(node, "", "search")

    def unanswered(self, node: str, file: str, kind: Literal["tail", "read", "search"]) -> LogStream:
        """A stream that the fleet knows and that nobody fills."""
        self.streams += 1
        stream = LogStream(node, file, self.streams, kind=kind)
        self.fleet.streams[node, self.streams] = stream
        return stream

    def drop(self, stream: LogStream) -> None:
        """Forget the stream."""
        self.fleet.streams.pop((stream.node, stream.id), None)

    def poll(self) -> bool:
        """Deliver what waits."""
        waiting, self.waiting = self.waiting, []
        for arrival in waiting:
            self.fleet.apply(arrival)
        return bool(waiting)

    def polling(self) -> Steps[bool]:
        """Deliver it in one step."""
        yield
        return self.poll()


def demo_session(second: float, plan: Plan | None = None, book: Book | None = None) -> StillSession:
    """The demo cluster at a second of its scenario, which is `NOW`."""
    if plan is not None:
        return StillSession(plan, arrivals(plan, second, NOW), book)
    return StillSession(demo_plan(), book=book, fleet=pickle.loads(_demo_fleet(second)))  # noqa: S301 - our own


@cache
def _demo_fleet(second: float) -> bytes:
    """Return the pickled demo fleet at a second; unpickling it takes a fifth of the time of its frames."""
    fleet = Fleet(demo_plan())
    for arrival in frames_until(second, NOW):
        fleet.apply(arrival)
    return pickle.dumps(fleet, pickle.HIGHEST_PROTOCOL)


def judged_session(second: float, plan: Plan | None = None) -> StillSession:
    """The same, with the alerts and incidents that the real book makes of it."""
    if plan is not None:
        return _judged(demo_session(second, plan), second)
    fleet, book = _Loaded(io.BytesIO(_judged_demo(second))).load()
    session = StillSession(demo_plan(), book=book, fleet=fleet)
    session.packs = _packs()
    return session


@cache
def _judged_demo(second: float) -> bytes:
    """Return the pickled fleet and book at a second; unpickling them takes half the time of a judgement."""
    session, kept = _judged(demo_session(second), second), io.BytesIO()
    _Kept(kept, pickle.HIGHEST_PROTOCOL).dump((session.fleet, session.book))
    return kept.getvalue()


def _judged(session: StillSession, second: float) -> StillSession:
    session.packs = _packs()
    session.book = AlertBook(session.packs, session.plan.thresholds)
    session.book.update(session.fleet, NOW, EPOCH + second)
    while not session.book.version:  # it judges in slices of time, and this machine may be busy
        session.book.update(session.fleet, NOW, EPOCH + second)
    return session


class _Kept(pickle.Pickler):
    """A pickler that leaves out the packs, which all sessions share."""

    def persistent_id(self, obj: object) -> str | None:
        return "packs" if obj is _packs() else None


class _Loaded(pickle.Unpickler):
    def persistent_load(self, pid: str) -> object:
        assert pid == "packs"
        return _packs()


@cache
def _packs() -> Packs:
    return load_packs()


def still_app(
    session: StillSession, second: float = 0.0, *, ascii_only: bool = False, theme: str | None = None,
    no_color: bool = False, clock: Callable[[], float] = lambda: NOW,
) -> GpuwatchApp:  # fmt: skip
    """An app whose clocks stand still, unless a test moves them."""
    app = GpuwatchApp(
        session, clock=SessionClock(clock, lambda: EPOCH + second), ascii_only=ascii_only, no_color=no_color
    )
    app.theme = theme or app.theme
    return app
