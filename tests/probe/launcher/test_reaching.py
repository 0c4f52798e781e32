"""Knocking at many doors at once, real ones on loopback."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from gpuwatch.probe.launcher.listening import Listener
from gpuwatch.probe.launcher.reaching import reach_all
from tests.sentences import Sentences


def target(node: str, address: str, port: int) -> dict[str, Any]:
    return {"node": node, "address": address, "port": port}


@contextlib.contextmanager
def a_door_that_drops() -> Iterator[tuple[str, int]]:
    """A full queue: the kernel drops what knocks, as a firewall does."""
    with socket.socket() as full, contextlib.ExitStack() as held:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):
            one = held.enter_context(socket.socket())
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        yield full.getsockname()


def test_a_thousand_doors_of_which_some_are_shut(sentences: Sentences) -> None:
    listener = Listener("127.0.0.1")
    try:
        with a_door_that_drops() as (address, port):
            targets = [target(f"n{i}", "127.0.0.1", listener.port) for i in range(990)]
            targets += [target(f"d{i}", address, port) for i in range(10)]
            tries = reach_all("127.0.0.3", targets, 3.0)
    finally:
        listener.close()
    assert [one["node"] for one in tries] == [one["node"] for one in targets]
    assert [one["ok"] for one in tries] == [True] * 990 + [False] * 10
    sentences(sorted({one["error"] for one in tries[990:]}))


def test_every_way_to_fail_has_its_words(sentences: Sentences) -> None:
    with socket.socket() as shut:
        shut.bind(("127.0.0.1", 0))
        port = shut.getsockname()[1]
        (refused,) = reach_all("127.0.0.1", [target("a", "127.0.0.1", port)], 3.0)
        (foreign,) = reach_all("203.0.113.7", [target("a", "127.0.0.1", port)], 3.0)
        (mixed,) = reach_all("127.0.0.1", [target("a", "::1", port)], 3.0)
        (astray,) = reach_all("127.0.0.1", [target("a", "203.0.113.7", port)], 3.0)
    sentences(refused["error"])
    sentences(foreign["error"])
    assert not mixed["ok"] and mixed["error"]
    assert not astray["ok"] and astray["error"]
    assert reach_all("127.0.0.1", [], 3.0) == []


FEW_DESCRIPTORS = """
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (90, 90))
from gpuwatch.probe.launcher.listening import Listener
from gpuwatch.probe.launcher.reaching import reach_all
here = Listener("127.0.0.1")
targets = [{"node": "n", "address": "127.0.0.1", "port": here.port}] * 200
print(sum(one["ok"] for one in reach_all("127.0.0.1", targets, 10.0)))
"""


def test_with_few_descriptors_they_wait_for_each_other() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FEW_DESCRIPTORS], capture_output=True, text=True, check=True, timeout=100
    )
    assert done.stdout == "200\n"


def test_a_listener_with_nobody_left_in_its_queue_is_given_away() -> None:
    listener = Listener("127.0.0.1")
    with socket.create_connection(("127.0.0.1", listener.port)), listener.take() as given:
        given.settimeout(30)
        with socket.create_connection(("127.0.0.1", listener.port)) as wanted:
            accepted, peer = given.accept()
            accepted.close()
            assert peer == wanted.getsockname()


def test_ipv6_where_there_is_any() -> None:
    try:
        listener = Listener("::1")
    except OSError:
        pytest.skip("this machine has no IPv6")
    try:
        (one,) = reach_all("::1", [target("a", "::1", listener.port)], 5.0)
    finally:
        listener.close()
    assert one["ok"]
