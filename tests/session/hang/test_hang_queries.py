"""One query for each hang, of the silent job's ranks alone, and none where the plan says manual."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence

import pytest

from gpuwatch.clock import SessionClock
from gpuwatch.diagnose.hang.answer import HangAnswer
from gpuwatch.diagnose.model.incident import HangCheck
from gpuwatch.diagnose.model.verdict import Verdict
from gpuwatch.fleet.pending_request import Asked
from gpuwatch.hosts.plan import NodeSpec, Plan
from gpuwatch.link.stream.inbox import Arrival, LinkStatus
from gpuwatch.session import Session
from gpuwatch.session.hang import hang_queries
from gpuwatch.session.hang.hang_queries import MAX_READING_S, HangQueries
from gpuwatch.session.hang.hang_query import HangQuery, HangSources
from gpuwatch.wire import Process, Ranks
from tests.servers import ras_server


class Recorded(Session):
    """Not started: it notes what it would have asked, and its jobs hang when a test says so."""

    def __init__(self) -> None:
        super().__init__(Plan((NodeSpec("node-1"), NodeSpec("node-2"))))
        self.hanging: set[str] = set()
        self.asked: list[tuple[str, tuple[int, ...], bool]] = []
        ranks = [Process(pid=100 + n, name="python", rank=n, job="a" if n < 2 else "b") for n in range(4)]
        for at, node in enumerate(("node-1", "node-2")):
            self.fleet.apply(Arrival(node, 1.0, LinkStatus("live")))
            self.fleet.apply(Arrival(node, 1.0, Ranks(t=1.0, seq=1, processes=ranks[at::2])))

    def ask_stacks(
        self,
        node: str,
        pids: Sequence[int],
        py_spy: str | None = "",
        seconds: float | None = None,
        *,
        sockets: bool = True,
    ) -> Asked:
        assert (py_spy, sockets) == ("", False)
        assert seconds is not None
        assert seconds < MAX_READING_S
        self.asked.append((node, tuple(pids), sockets))
        return super().ask_stacks(node, pids, py_spy, seconds, sockets=sockets)


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    made = Recorded()
    monkeypatch.setattr(type(made.book), "suspected_hangs", property(lambda _book: frozenset(made.hanging)))
    return made


def test_a_hang_is_asked_about_once_and_the_next_one_anew(session: Recorded) -> None:
    queries = HangQueries(session, lambda: session.book)
    queries.update()
    assert session.asked == []
    session.hanging = {"b"}
    for _ in range(3):
        queries.update()
    assert [(node, pids) for node, pids, _ in session.asked] == [("node-1", (102,)), ("node-2", (103,))]
    session.hanging = set()
    queries.update()
    session.hanging = {"a", "b"}
    queries.update()
    assert len(session.asked) == 6


@pytest.mark.parametrize(("settles", "readings"), [(None, 2), (False, 2), (True, 1)])
def test_only_a_hang_that_one_reading_does_not_settle_is_read_a_second_time(
    session: Recorded, monkeypatch: pytest.MonkeyPatch, settles: bool | None, readings: int
) -> None:
    """`settles`: None where no node answers."""
    check = HangCheck(1.0, Verdict("stacks", True, "rank 2 is in f (a.py:1)", (2,), "medium"))
    answer = None if settles is None else HangAnswer(check, settles)
    monkeypatch.setattr(hang_queries, "answer_of", lambda *_: answer)
    monkeypatch.setattr(hang_queries, "AGAIN_S", 0.0)
    now = 0.0
    queries = HangQueries(session, lambda: session.book, SessionClock(lambda: now))
    session.hanging = {"b"}
    for _ in range(9):
        now += MAX_READING_S  # a reading is over by then
        queries.update()
    assert [node for node, _, _ in session.asked] == ["node-1", "node-2"] * readings


@pytest.mark.parametrize(
    ("pid", "host", "is_taken"),
    [(102, "127.0.0.1", True), (100, "127.0.0.1", False), (100, "node-1", False), (101, "node-2", False)],
)
def test_an_answer_that_names_processes_of_another_job_is_not_taken(
    session: Recorded, monkeypatch: pytest.MonkeyPatch, pid: int, host: str, is_taken: bool
) -> None:
    gone = {**ras_server.missing(1, dead=True), "pid": pid, "host": host}
    packed = zlib.compress(ras_server.answer([ras_server.rank(0, 7)], [gone]).encode())
    answer = {"address": "a:1", "packed": base64.b64encode(packed).decode(), "format": "json", "pids": [102]}
    answers = {"node-1": {"answers": [answer]}}
    monkeypatch.setattr(Recorded, "ask_stacks", Session.ask_stacks)
    monkeypatch.setattr(session, "ask_ras", lambda node, _pids: Asked(node, 1, answers.get(node)))
    query = HangQuery(session, sources=HangSources(dumps=False))
    query.update()
    assert [each.jobs for each in query.ras] == ([frozenset({"b"})] if is_taken else [])
    assert ("node-1" in query.ras_trouble) != is_taken
