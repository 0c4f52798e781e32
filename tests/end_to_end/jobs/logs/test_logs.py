"""Logs of a node over real ssh, through the session: looked at, searched, cut off, and killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from msgspec.structs import replace

from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.logs.log_stream import LogStream
from gpuwatch.session import Session
from gpuwatch.wire import LogFile
from tests.agent.logs.conftest import append, children, wait_for
from tests.end_to_end.cluster import plan_of, watch
from tests.servers.sshd import Client, Sshd
from tests.waiting import alive

NODE = "gpu-001"
TRAIN = "2024-05-01 10:{:02}:{:02} step {} loss 2.5\n"


@contextmanager
def node(tmp_path: Path, logs: Path) -> Iterator[tuple[Sshd, Session]]:
    """A node whose `logs/*.log` are read, and a session that sees them."""
    client = Client(tmp_path / "client")
    with Sshd(tmp_path / "node", client=client, names=[NODE]) as sshd:
        plan = replace(plan_of([NODE], 0.5), logs=(f"{logs}/*.log",))
        with Session(plan, client.options()) as session:
            watch(session, lambda fleet, _now: bool(settled(fleet)))
            pids = agent_pids(session)
            yield sshd, session
            pids += agent_pids(session)
        wait_for(lambda: not any(alive(pid) for pid in pids), "something outlives the session")


def settled(fleet: Fleet) -> list[LogFile]:
    files = fleet.nodes[NODE].logs
    return [] if any(one.backlog_pct is not None for one in files) else files


def agent_pids(session: Session) -> list[int]:
    """The agent, its log reader and its searches."""
    hello = session.fleet.nodes[NODE].hello
    assert hello is not None
    found = [hello.pid]
    for pid in found:
        found += children(pid)
    return found


def texts(stream: LogStream) -> list[str]:
    return [line.text for line in stream.lines]


def done(session: Session, stream: LogStream) -> list[str]:
    watch(session, lambda _fleet, _now: stream.done)
    return texts(stream)


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "rank_0.log").write_text("".join(TRAIN.format(n // 60, n % 60, n) for n in range(3600)))
    return folder


class Flood:
    """20 MB a second into one file."""

    def __init__(self, path: Path) -> None:
        self._ended = threading.Event()
        self._path = path
        path.touch()
        self._thread = threading.Thread(target=self._write, daemon=True)

    def __enter__(self) -> Flood:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _write(self) -> None:
        block = b"".join(
            b"iteration %7d of 1000000, nothing of interest in it at all\n" % n for n in range(16_000)
        )
        written, began = 0, time.monotonic()
        with self._path.open("ab") as file:
            while not self._ended.is_set() and written < 200 << 20:
                file.write(block)
                written += len(block)
                time.sleep(max(0.0, began + written / 20e6 - time.monotonic()))


@pytest.mark.timeout(600)
def test_files_are_looked_at_while_another_is_flooded(tmp_path: Path, logs: Path) -> None:
    log = str(logs / "rank_0.log")
    with node(tmp_path, logs) as (_, session), Flood(logs / "loud.log"):
        watch(session, lambda fleet, _now: any((one.size or 0) > 30e6 for one in fleet.nodes[NODE].logs))
        tail = session.tail(NODE, log, 3)
        watch(session, lambda _fleet, _now: bool(tail.lines))
        assert [text[20:29] for text in texts(tail)] == ["step 3597", "step 3598", "step 3599"]
        offset = (logs / "rank_0.log").read_text().index("step 1800")
        at = time.mktime((2024, 5, 1, 10, 30, 0, 0, 0, -1))
        pages = [
            session.read_lines(NODE, log, offset=offset, after=1),
            session.read_lines(NODE, log, time=at, after=1),
            session.read_lines(NODE, log, before=1),
        ]
        searches = [
            session.search(NODE, r"step \d*00 loss", [log]),
            session.search(NODE, r"^2024-05-01 .*STEP 77 ", ignore_case=True),  # other jobs log steps too
        ]
        assert [done(session, page)[0][20:29] for page in pages] == ["step 1800", "step 1800", "step 3599"]
        assert len(done(session, searches[0])) == 35
        assert [text[20:27] for text in done(session, searches[1])] == ["step 77"]
        assert searches[1].progress == 1.0
        append(Path(log), "".join(f"live {n}\n" for n in range(2000)))
        watch(session, lambda _fleet, _now: "live 1999" in tail.lines[-1].text)
        assert texts(tail)[3:] == [f"live {n}" for n in range(2000)]


@pytest.mark.long
@pytest.mark.timeout(600)
def test_an_endless_search_is_cancelled_and_leaves_nothing(tmp_path: Path, logs: Path) -> None:
    append(logs / "rank_0.log", "a" * 60 + "!\n")
    with node(tmp_path, logs) as (_, session):
        search = session.search(NODE, r"^(a+)+$")
        before = agent_pids(session)
        running = wait_for(lambda: [pid for pid in agent_pids(session) if pid not in before[:2]], "a search")
        session.drop(search)
        wait_for(lambda: session.poll() or not any(alive(pid) for pid in running), "the search goes on")
        wait_for(lambda: not any(alive(pid) for pid in running), "the search goes on")


def cut_the_link(_session: Session, sshd: Sshd) -> None:
    sshd.restart()


def kill_the_agent(session: Session, _sshd: Sshd) -> None:
    os.kill(agent_pids(session)[0], signal.SIGKILL)


@pytest.mark.sampled(1)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", [cut_the_link, kill_the_agent])
def test_a_tail_goes_on_where_it_was(tmp_path: Path, logs: Path, fault: object) -> None:
    log = logs / "rank_0.log"
    with node(tmp_path, logs) as (sshd, session):
        tail = session.tail(NODE, str(log), 0)
        watch(session, lambda _fleet, _now: tail.size is not None)
        append(log, "".join(f"live {n}\n" for n in range(500)) + "half a l")
        watch(session, lambda _fleet, _now: bool(tail.lines) and tail.lines[-1].text == "half a l")
        since = session.fleet.nodes[NODE].agent_since
        stacks = session.ask_stacks(NODE, [os.getpid()], seconds=20.0)
        files = session.ask_job_files(NODE, [str(log)], "logs")
        fault(session, sshd)  # type: ignore[operator]
        append(log, "ine\n" + "".join(f"away {n}\n" for n in range(500)))
        watch(session, lambda fleet, _now: fleet.nodes[NODE].agent_since != since)
        watch(session, lambda fleet, _now: stacks.done and files.done and not fleet.asked)
        append(log, "".join(f"back {n}\n" for n in range(500)))
        watch(session, lambda _fleet, _now: tail.lines[-1].text == "back 499")
        expected = [f"{word} {n}" for word in ("live", "away", "back") for n in range(500)]
        expected.insert(500, "half a line")
        assert texts(tail) == expected
        assert tail.came == len(expected)
        assert not tail.seams


@pytest.mark.sampled(1)
@pytest.mark.timeout(600)
@pytest.mark.parametrize("sent", [signal.SIGKILL, signal.SIGSTOP])
def test_a_reader_that_dies_or_stands_still_is_replaced(
    tmp_path: Path, logs: Path, sent: signal.Signals
) -> None:
    log = logs / "rank_0.log"
    with node(tmp_path, logs) as (_, session):
        tail = session.tail(NODE, str(log), 1)
        watch(session, lambda _fleet, _now: bool(tail.lines))
        (reader,) = agent_pids(session)[1:]
        os.kill(reader, sent)
        append(log, "away\n")
        watch(session, lambda _fleet, _now: tail.lines[-1].text == "away")
        assert [text[-9:] for text in texts(tail)] == [" loss 2.5", "away"]

        def noted(fleet: Fleet, _now: float) -> bool:
            hello = fleet.nodes[NODE].hello
            return hello is not None and any(one.code == "log_reader_ended" for one in hello.notices)

        watch(session, noted)
        assert not alive(reader)


@pytest.mark.timeout(600)
def test_a_file_made_anew_while_the_link_was_lost(tmp_path: Path, logs: Path) -> None:
    log = logs / "rank_0.log"
    with node(tmp_path, logs) as (sshd, session):
        tail = session.tail(NODE, str(log), 1)
        watch(session, lambda _fleet, _now: bool(tail.lines))
        since = session.fleet.nodes[NODE].agent_since
        sshd.stop()
        log.write_text("x" * 200 + "\n" + "anew\n" * 40_000)
        sshd.start()
        watch(session, lambda fleet, _now: fleet.nodes[NODE].agent_since != since)
        append(log, "last\n")
        watch(session, lambda _fleet, _now: tail.lines[-1].text == "last")
        assert len(tail.seams) == 1
