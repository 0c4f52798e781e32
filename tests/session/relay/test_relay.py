"""One session for several viewers, over real sockets."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

import pytest

from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.link.relay.connection import RelayConnection
from gpuwatch.link.relay.messages import RelayError, ViewerChange, ViewerRequest, packet
from gpuwatch.session import Session
from gpuwatch.session.relay import viewer_channel
from gpuwatch.session.relay.relay import READ_ONLY, ViewerRelay
from gpuwatch.session.relay.requests import bounded_request
from gpuwatch.session.relay.viewer_session import ViewerSession
from gpuwatch.wire import (
    AnyRequest,
    AskDumpPiece,
    AskDumps,
    AskRankSettings,
    AskStacks,
    Cancel,
    ReadLines,
    Sample,
    Tail,
)
from tests.link.recording.recordings import BEGAN, PlayedSession, demo_story
from tests.session.polling import until

STORY_S, SAMPLES_S = 60.0, 45.0
"""The demo's GPU is lost by then; samples of the time before are left out, which costs less."""
WAIT_S = 240.0


class View:
    """A viewer in this process."""

    def __init__(self, relay: ViewerRelay, turn: Callable[[], None]) -> None:
        self.end = relay.add_viewer()
        self._turn = turn
        turn()  # the opening is sent
        self.session = ViewerSession(RelayConnection(self.end))

    def until(self, fits: Callable[[], bool]) -> None:
        """Take turns with the process that holds the links until something holds."""
        deadline = time.monotonic() + WAIT_S
        while not fits():
            assert time.monotonic() < deadline
            self._turn()
            self.session.poll()
            time.sleep(0.005)


class Shared:
    """The demo as it was after a while, and two relays over it: one of them takes changes."""

    def __init__(self) -> None:
        story = demo_story(STORY_S)
        late = [one for one in story if one.at > BEGAN + SAMPLES_S or not isinstance(one.what, Sample)]
        self.session = PlayedSession(demo_plan(), late)
        self.relay, self.changing = ViewerRelay(self.session), ViewerRelay(self.session, changes=True)
        self.session.run(STORY_S, step_s=1.5)

    def turn(self) -> None:
        """As the loop of `gpuwatch serve`."""
        self.session.now += 0.3
        self.session.poll()
        self.relay.exchange()
        self.changing.exchange()

    def view(self, *, changes: bool = False) -> View:
        """A new viewer that has what there is."""
        view = View(self.changing if changes else self.relay, self.turn)
        view.until(lambda: len(view.session.book.incidents) == len(self.session.book.incidents) > 0)
        return view


@pytest.fixture(scope="module")
def played() -> Shared:
    return Shared()


@pytest.fixture
def shared(played: Shared) -> Iterator[Shared]:
    yield played
    played.relay.close()
    played.changing.close()


def test_a_viewer_sees_what_the_session_has(shared: Shared) -> None:
    session = shared.view().session
    assert [one.headline for one in session.book.incidents] == [
        one.headline for one in shared.session.book.incidents
    ]
    for name, node in shared.session.fleet.nodes.items():
        seen = session.fleet.nodes[name]
        assert [gpu.info.uuid for gpu in seen.gpu_list()] == [gpu.info.uuid for gpu in node.gpu_list()]
        assert seen.link.phase == node.link.phase == "live"
    assert session.refused == 0
    assert not any(spec.address or spec.user or spec.command for spec in session.plan.nodes)


def test_what_one_viewer_changes_all_see(shared: Shared) -> None:
    one, other = shared.view(changes=True), shared.view()
    book = shared.session.book
    incident = one.session.book.incidents[0].id
    one.session.acknowledge(incident)
    one.session.note(incident, "power-cycled")
    other.until(lambda: other.session.book.incidents[0].acknowledged)
    other.until(lambda: [note.text for note in other.session.book.incidents[0].notes] == ["power-cycled"])
    one.session.unacknowledge(incident)
    other.until(lambda: not other.session.book.incidents[0].acknowledged)
    alert = book.incidents[0].alerts[0]
    one.session.silence(alert.code, node=alert.node, gpu=alert.gpu)
    one.until(lambda: book.alerts[alert.id].silenced)
    one.session.unsilence(alert.code, node=alert.node, gpu=alert.gpu)
    one.until(lambda: not book.alerts[alert.id].silenced)


def test_a_read_only_viewer_changes_nothing(shared: Shared) -> None:
    view, book = shared.view(), shared.session.book
    incident = book.incidents[0]
    view.session.acknowledge(incident.id)
    view.session.note(incident.id, "mine")
    view.session.silence(incident.alerts[0].code)
    asked = view.session.ask_ras("gpu-001", [1])  # comes after them
    view.until(lambda: asked.error is not None)
    assert not book.incidents[0].acknowledged
    assert not any(alert.silenced or alert.acknowledged for alert in book.alerts.values())
    assert "mine" not in [note.text for note in book.incidents[0].notes]


def test_a_viewer_that_reads_nothing_is_bounded_and_catches_up(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(viewer_channel, "MAX_PENDING_BYTES", 12 << 20)
    view = shared.view()
    (channel,) = shared.relay._viewers
    for _ in range(100):
        channel.answer("gpu-001", 1, bytes(1 << 20))
    assert channel.is_behind
    assert channel._pending_bytes < 14 << 20
    view.until(lambda: not channel.is_behind and channel.is_drained)
    wanted = {one.id for one in shared.session.book.incidents}
    view.until(lambda: {one.id for one in view.session.book.incidents} == wanted)


def test_garbage_from_a_viewer_ends_that_viewer_alone(shared: Shared) -> None:
    view = shared.view()
    flood = packet(ViewerRequest("gpu-001", b'{"do":"kill","id":1}')) * 6000
    for data in (b"\x00\x00\x00\x02hi", b"\xff\xff\xff\xff", (2 << 20).to_bytes(4, "big"), flood):
        end = shared.relay.add_viewer()
        end.setblocking(False)
        for _ in range(8 if data is flood else 1):
            with contextlib.suppress(OSError):
                end.send(data)
            shared.turn()
    assert shared.relay.viewers == 1
    assert view.session.connection.send(ViewerRequest("gpu-001", b'{"do":"kill","id":1}'))
    assert view.session.connection.send(ViewerRequest("../etc", b"nonsense"))
    shared.turn()
    assert shared.relay.viewers == 1
    shared.relay.close()
    assert view.session.connection.ended.wait(WAIT_S)


@pytest.fixture(scope="module")
def live() -> Iterator[tuple[Session, ViewerRelay]]:
    session = Session(demo_plan())
    relay = ViewerRelay(session)
    with contextlib.closing(session):
        session.start()
        yield session, relay
        relay.close()


def test_a_viewer_reads_lines_and_its_requests_end_with_it(
    live: tuple[Session, ViewerRelay],
) -> None:
    session, relay = live
    sent: list[object] = []
    forward = session.forward

    def noted(node: str, request: object) -> int | None:
        sent.append(request)
        return forward(node, request)  # type: ignore[arg-type]

    session.forward = noted  # type: ignore[method-assign]

    def turn() -> None:
        session.poll()
        relay.exchange()

    view = View(relay, turn)
    view.until(lambda: bool(view.session.fleet.nodes["gpu-001"].logs))
    file = view.session.fleet.nodes["gpu-001"].logs[0].path
    tail = view.session.tail("gpu-001", file, 5)
    view.until(lambda: len(tail.lines) >= 5)
    around = view.session.read_lines("gpu-001", file, offset=tail.lines[0].offset, after=2)
    view.until(lambda: around.done)
    assert around.lines[0].text == tail.lines[0].text
    asked = view.session.ask_dumps("gpu-001", [1])
    view.until(lambda: asked.error is not None)
    assert asked.error == READ_ONLY
    assert not any(isinstance(each, AskDumps) for each in sent)
    view.session.close()
    deadline = time.monotonic() + WAIT_S
    while not isinstance(sent[-1], Cancel):
        assert time.monotonic() < deadline
        turn()
    assert [type(each) for each in sent] == [Tail, ReadLines, Cancel]


def test_a_viewer_names_no_program_address_or_foreign_process(
    live: tuple[Session, ViewerRelay],
) -> None:
    session, _ = live
    until(session, lambda: bool(session.fleet.nodes["gpu-001"].processes))
    process = session.fleet.nodes["gpu-001"].processes[0]

    def sent(request: AnyRequest) -> object:
        return bounded_request(request, "gpu-001", session.fleet)

    assert sent(AskStacks(id=1, pids=[1, process.pid], py_spy="/bin/sh")) == AskStacks(
        id=1, pids=[process.pid]
    )
    reach = ["10.0.0.1:22", process.master or ""]
    assert sent(AskRankSettings(id=1, reach=reach, ports=[22], pids=[1])) == AskRankSettings(
        id=1, reach=[process.master or ""]
    )
    assert sent(AskDumpPiece(id=1, pid=1, prefix="/tmp/x", name="0", offset=0)) is None
    read = ReadLines(id=1, file="/logs/rank_0.log")
    assert sent(read) == read


def test_a_socket_that_is_no_relay_is_refused() -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(packet(ViewerChange("note")))
    ours.close()
    with pytest.raises(RelayError):
        RelayConnection(theirs)
