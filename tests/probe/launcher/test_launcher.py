"""The talk with one launcher: preflight, listening, knocking, counting, the worker and its end."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuwatch.probe.protocol import (
    Count,
    Counters,
    Died,
    Done,
    Leaving,
    Listen,
    Listening,
    Note,
    Reached,
    Ready,
    Step,
    Stop,
    Target,
    TryReach,
)
from tests.probe.launcher.driving import Driven, dial, fake_torch, gone, listeners, one_rank
from tests.sentences import Sentences


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[Driven]:
    """A launcher on a node whose Python has a torch that must not be imported."""
    with Driven(dial({"PYTHONPATH": str(fake_torch(tmp_path))})) as driven:
        yield driven


def prepared(launcher: Driven) -> Ready:
    """Its stub worker, with one forked rank."""
    launcher.send(one_rank())
    return launcher.until(Ready)


def worker_facts(launcher: Driven) -> tuple[dict[str, object], dict[str, str], str, list[str]]:
    """What the stub worker was started with: config, environment, interpreter, sys.path."""
    config, environ, python, path = json.loads(launcher.until(Note).text)
    return config, environ, python, path


def test_the_ground_is_reported_by_itself_and_first(launcher: Driven) -> None:
    inventory = launcher.inventory()
    assert launcher.message[0] is inventory
    assert (inventory.python_from, inventory.torch, inventory.tried) == ("hosts file", "2.9.1+fake", [])
    assert inventory.host == socket.gethostname()
    assert [(nic.address, nic.prefix, nic.up) for nic in inventory.nics if nic.address == "127.0.0.1"] == [
        ("127.0.0.1", 8, True)
    ]
    assert inventory.gpus == []


def test_it_listens_on_the_one_address_and_others_reach_it(launcher: Driven) -> None:
    launcher.send(Listen(address="127.0.0.1"))
    here = launcher.until(Listening)
    assert here.error is None
    assert listeners(launcher.inventory().pid) == {("127.0.0.1", here.port)}
    launcher.send(
        TryReach(targets=[Target(node=f"n{i}", address="127.0.0.1", port=here.port) for i in range(300)])
    )
    tries = launcher.until(Reached).tries
    assert [(one.node, one.ok, one.error) for one in tries] == [(f"n{i}", True, None) for i in range(300)]
    assert all(one.connect_s is not None and one.connect_s < 5 for one in tries)


def test_an_address_of_another_node_cannot_be_listened_on(launcher: Driven) -> None:
    launcher.send(Listen(address="203.0.113.9"), Listen(address="127.0.0.1"))
    refused = launcher.until(Listening)
    assert refused.error is not None and " 203.0.113.9: " in refused.error
    assert launcher.until(Listening, lambda message: message.error is None).port > 0


def test_an_address_that_cannot_be_reached_has_a_reason(launcher: Driven, sentences: Sentences) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.2", 0))  # bound, but nothing listens
        port = closed.getsockname()[1]
        launcher.send(
            Listen(address="127.0.0.1"),
            TryReach(targets=[Target(node="down", address="127.0.0.2", port=port)]),
        )
        (down,) = launcher.until(Reached).tries
    assert not down.ok
    sentences(down.error)


def test_counters_have_the_names_of_the_contract(launcher: Driven) -> None:
    launcher.send(Count())
    values = launcher.until(Counters).values
    assert values["tcp:retransmits"] >= 0
    assert {name.split(":")[0] for name in values} <= {"tcp", "nic", "ib", "nvlink", "pcie", "=pcie"}


def test_the_worker_gets_the_orders_the_socket_and_an_environment_that_leaves_no_files(
    launcher: Driven,
) -> None:
    launcher.send(Listen(address="127.0.0.1"))
    here = launcher.until(Listening)
    launcher.send(one_rank(store_here=True, store_port=here.port))
    ready = launcher.until(Ready)
    config, environ, python, path = worker_facts(launcher)
    worker = parent_of(ready.pid)
    assert ("127.0.0.1", here.port) in listeners(worker)
    assert listeners(launcher.inventory().pid) == set()
    assert isinstance(config["store_fd"], int) and 0 < float(str(config["deadline_s"])) <= 100
    assert (environ["PYTHONDONTWRITEBYTECODE"], environ["CUDA_CACHE_DISABLE"]) == ("1", "1")
    assert python == sys.executable and "" not in path
    launcher.send(Step(id=7, what="collective"))
    assert launcher.until(Done).step == 7


def test_the_socket_of_the_store_holds_nobody_who_only_knocked(launcher: Driven) -> None:
    launcher.send(Listen(address="127.0.0.1"))
    here = launcher.until(Listening)
    with socket.create_connection(("127.0.0.1", here.port)) as knocked:
        launcher.send(one_rank(store_here=True, store_port=here.port))
        launcher.until(Ready)
        assert knocked.recv(1) == b""  # closed by the launcher, not left for the store
    with socket.create_connection(("127.0.0.1", here.port)) as late:
        assert late.getpeername()[1] == here.port


def test_stop_ends_everything_in_order(launcher: Driven) -> None:
    ready = prepared(launcher)
    worker = parent_of(ready.pid)
    launcher.send(Stop())
    assert launcher.until(Leaving).reason == "stopped"
    launcher.wait_for_the_end()
    assert gone(ready.pid, worker, launcher.inventory().pid)
    assert not any(isinstance(message, Died) for message in launcher.message)


def test_stop_before_there_are_ranks(launcher: Driven) -> None:
    launcher.inventory()
    launcher.send(Stop())
    assert launcher.until(Leaving).reason == "stopped"
    assert gone(launcher.inventory().pid)


def test_a_worker_that_dies_is_reported_with_its_last_words(launcher: Driven, sentences: Sentences) -> None:
    prepared(launcher)
    launcher.send(Step(id=1, what="h2d"))
    died = launcher.until(Died)
    assert died.rank is None
    sentences(died.reason)
    launcher.send(Stop())
    launcher.until(Leaving)


def test_orders_that_make_no_sense_are_noted_and_passed_over(launcher: Driven, sentences: Sentences) -> None:
    launcher.inventory()
    launcher.carrier.send(b'nonsense\n{"do":"dance"}\n{"do":"listen"}\n\n')
    launcher.send(Step(id=1, what="collective"), Listen(address="127.0.0.1"))
    launcher.until(Listening)
    notes = [message.text for message in launcher.message if isinstance(message, Note)]
    sentences([note.partition(":")[0] for note in notes])


def parent_of(pid: int) -> int:
    """The pid of its parent."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
