"""The agent asks NCCL's RAS on a real socket."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from gpuwatch.agent.hang_evidence.ras import addresses, ask, in_turn, listener, ras
from gpuwatch.diagnose.hang.ras.reader import read_ras
from gpuwatch.wire import RasAnswer, RasAnswers
from tests.sentences import Sentences
from tests.servers import ras_server

Start = Callable[..., int]


@pytest.fixture
def process() -> Iterator[Start]:
    """Start a process (of a user) with these variables besides ours; its pid."""
    started = []

    def start(user: int | None = None, **variables: str) -> int:
        child = subprocess.Popen(
            [sys.executable if user is None else "/usr/bin/python3", "-c", "print(1, flush=True); input()"],
            env={**os.environ, **variables},
            user=user,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert child.stdout is not None
        child.stdout.readline()
        started.append(child)
        return child.pid

    yield start
    for child in started:
        child.communicate(b"\n")


def asked(address: str, seconds: float = 20.0) -> RasAnswer:
    return msgspec.convert(ask(address, time.monotonic() + seconds), RasAnswer)


@pytest.mark.parametrize("speaks_json", [True, False])
def test_both_formats_come_whole(speaks_json: bool) -> None:
    output = (
        ras_server.answer([ras_server.rank(n, 7) for n in range(2000)]) if speaks_json else ras_server.text()
    )
    with ras_server.ras_server(output, speaks_json=speaks_json) as address:
        found = asked(address)
    assert (found.error, found.format, found.protocol) == (None, "json" if speaks_json else "text", "2")
    assert read_ras(found, "gpu-001").version == ("2.28.9" if speaks_json else "2.24.3")


def test_the_address_is_that_of_the_process_and_asked_once(process: Start) -> None:
    with ras_server.ras_server(ras_server.answer([]), speaks_json=True) as address:
        pids = [process(NCCL_RAS_ADDR=address), process(NCCL_RAS_ADDR=address)]
        off = process(NCCL_RAS_ENABLE="0")
        reported = msgspec.convert(ras({"pids": [*pids, off, 1 << 30]}), RasAnswers)
    assert [(each.address, each.pids, each.error) for each in reported.answers] == [(address, pids, None)]


def test_a_server_that_says_nothing_costs_only_its_time() -> None:
    with ras_server.ras_server("", speaks_json=True, hangs=True) as address:
        found = asked(address, seconds=0.5)
    assert found.error is not None
    assert "no answer" in found.error


def test_nobody_and_somebody_else_are_distinguished(sentences: Sentences) -> None:
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    assert "refused" in str(asked(f"127.0.0.1:{port}").error)
    sentences(str(asked("nonsense").error))


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "::"])
def test_the_user_who_listens_is_known(host: str) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        server = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"no {host} here")
    with server:
        port = server.getsockname()[1]
        reached = "::1" if host == "::" else host
        assert listener(reached, port) == os.geteuid()
        assert listener("2001:db8::1" if ":" in reached else "192.0.2.1", port) is None  # another machine
    assert listener(reached, port) is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to listen as another user")
def test_a_strangers_ras_is_not_asked() -> None:
    program = (
        "import socket; s = socket.create_server(('127.0.0.1', 0)); "
        "print(s.getsockname()[1], flush=True); input()"
    )
    child = subprocess.Popen(
        ["/usr/bin/python3", "-c", program],
        user=65534,
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert child.stdout is not None
        address = f"127.0.0.1:{int(child.stdout.readline())}"
        for users in ({1000}, {0}):
            assert "no process" in str(ask(address, time.monotonic() + 20.0, users)["error"])
        assert "no answer" in str(ask(address, time.monotonic() + 0.5, {65534})["error"])
    finally:
        child.communicate(b"\n")


def test_hostile_requests_are_bounded() -> None:
    assert ras({"pids": ["x", -1, None]}) == {"answers": []}
    assert ras({}) == {"answers": []}


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to run a rank as another user")
def test_a_stranger_who_shares_an_address_answers_for_his_own_ranks_alone(process: Start) -> None:
    """The default address is that of all jobs of the node."""
    with ras_server.ras_server(ras_server.answer([]), speaks_json=True) as address:
        own = process(NCCL_RAS_ADDR=address)
        foreign = [process(65534, NCCL_RAS_ADDR=address), process(65534, NCCL_RAS_ADDR=address)]
        reported = msgspec.convert(ras({"pids": [own, *foreign]}), RasAnswers)
        answered = {tuple(each.pids): each.error is None for each in reported.answers}
        assert answered == {(own,): True, tuple(foreign): False}
        reported = msgspec.convert(ras({"pids": foreign}), RasAnswers)
        assert [each.error is None for each in reported.answers] == [False]


def test_many_addresses_of_one_user_leave_the_others_theirs() -> None:
    """A user's ranks may each name an address of their own."""
    asked_for = in_turn({(1, f"a:{n}"): [n] for n in range(1, 30)} | {(2, "z:1"): [99]})
    assert len(asked_for) == 8
    assert ("z:1", 2, [99]) in asked_for[:2]


def test_a_silent_server_takes_no_time_from_another(process: Start) -> None:
    with (
        ras_server.ras_server("", speaks_json=True, hangs=True) as silent,
        ras_server.ras_server(ras_server.answer([]), speaks_json=True) as address,
    ):
        pids = {where: process(NCCL_RAS_ADDR=where) for where in (silent, address)}
        reported = msgspec.convert(ras({"pids": list(pids.values()), "timeout_s": 2.5}), RasAnswers)
    assert {each.address: each.error is None for each in reported.answers} == {silent: False, address: True}


def test_a_rank_in_a_network_of_its_own_is_not_asked_for(process: Start, tmp_path: Path) -> None:
    """Its localhost is another one than the agent's."""
    pid = process(NCCL_RAS_ADDR="localhost:28028")
    for name, network in (("self", "net:[1]"), (str(pid), "net:[2]")):
        (tmp_path / name / "ns").mkdir(parents=True)
        (tmp_path / name / "ns/net").symlink_to(network)
    for name in ("environ", "status"):
        (tmp_path / str(pid) / name).write_bytes(Path(f"/proc/{pid}/{name}").read_bytes())
    assert addresses(str(tmp_path), [pid]) == {}
    (tmp_path / "self/ns/net").unlink()
    (tmp_path / "self/ns/net").symlink_to("net:[2]")
    assert list(addresses(str(tmp_path), [pid]).values()) == [[pid]]


def test_a_long_answer_is_refused_and_fills_no_memory() -> None:
    with ras_server.ras_server(random.Random(1).randbytes(300_000).hex(), speaks_json=True) as address:
        assert "too long" in str(ask(address, time.monotonic() + 20.0, None, 100_000)["error"])
