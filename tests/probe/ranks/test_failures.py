"""Ranks that die, do not come or do not agree: named, in words, and the others go on."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import pytest

from gpuwatch.probe.probe_request import COLLECTIVES, MIB
from gpuwatch.probe.protocol import Arrived, Died, NodeSlot, Note, Prepare, Ready, Step, Stop
from tests.parts import need_torch
from tests.probe.ranks.driver import Cluster, Worker, wait_until
from tests.sentences import Sentences


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture(autouse=True)
def _torch() -> None:
    need_torch()


def pid_of(ready: list[Ready], rank: int) -> int:
    return next(message.pid for message in ready if message.rank == rank)


def test_ranks_that_never_join_are_named_by_those_that_did(sentences: Sentences) -> None:
    """Three of a world of five: each of them says who is missing, and ends."""
    # Longer than two imports of torch beside each other may lie apart on a busy machine.
    with Cluster((2, 1), missing=2, join_s=6.0) as cluster:
        died = cluster.all_of(Died, 3)
        assert {message.rank for message in cluster.all_of(Arrived, 3)} == {0, 1, 2}
        sentences(list({message.reason for message in died}))
        assert cluster.stop() == [0, 0]


@pytest.mark.long
def test_a_node_that_imports_torch_slowly_is_waited_for_also_where_the_store_is() -> None:
    """The time limit of a step is no time limit of an import: a network file system may be cold."""
    with Cluster((1, 1), first="import time; time.sleep(3);", timeout_s=1.0) as cluster:
        assert {message.rank for message in cluster.ready()} == {0, 1}
        done = cluster.do("collective", collective="all_reduce", bytes=4096, timeout_s=5.0)
        assert [message.error for message in done] == [None, None]


def test_a_store_that_nobody_hosts_is_named_by_its_address() -> None:
    """The way to the store is checked before, but it can be gone by then."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    worker = Worker()
    slots = [NodeSlot(rank=1, local=0)]
    worker.send(
        Prepare(
            backend="gloo",
            world_size=2,
            slots=slots,
            store_address="127.0.0.1",
            store_port=port,
            join_s=1.0,
        )
    )
    received = worker.wait(lambda message: any(isinstance(each, Died) for each in message))
    assert f" 127.0.0.1:{port}" in str(received)
    worker.close()


def test_a_killed_rank_is_reported_at_once_and_named_by_the_barrier_of_the_next_step(
    sentences: Sentences,
) -> None:
    """The others answer every step and can make pairs, also without rank 0 on the store's node."""
    with Cluster((1, 2)) as cluster:
        ready = cluster.ready()
        os.kill(pid_of(ready, 0), signal.SIGKILL)
        (died,) = cluster.all_of(Died, 1)
        assert died.rank == 0 and died.reason.startswith("killed by SIGKILL")
        done = cluster.do("collective", answers=2, collective="all_reduce", bytes=4096, timeout_s=0.5)
        sentences(list({message.error for message in done}))
        assert [message.absent for message in done] == [[0], [0]]
        done = cluster.do("bandwidth", answers=1, pairs=[(0, 1)], bytes=4096, timeout_s=0.5)
        assert done[0].rank == 1
        sentences(done[0].error)
        done = cluster.do("bandwidth", answers=2, pairs=[(1, 2)], bytes=4096, check=True)
        assert [message.error for message in done] == [None, None]
        assert cluster.stop() == [0, 0]


@pytest.mark.long
def test_a_rank_killed_within_a_collective_is_an_error_of_the_others() -> None:
    """They are not stuck in it."""
    with Cluster((2,)) as cluster:
        ready = cluster.ready()
        step = cluster.step("collective", collective="all_reduce", bytes=16 * MIB, iterations=10_000)
        pid = pid_of(ready, 1)
        before = cpu_s(pid)
        cluster.workers[0].send(step)
        wait_until(lambda: cpu_s(pid) > before + 0.2)  # nothing but the collective works so hard
        os.kill(pid, signal.SIGKILL)
        (done,) = cluster.done(step.id, 1)
        assert done.rank == 0 and done.error and "[/" not in done.error
        assert cluster.all_of(Died, 1)[0].rank == 1


@pytest.mark.long
def test_ranks_that_do_not_agree_on_a_size_get_an_error(sentences: Sentences) -> None:
    """gloo aborts the rank that expects less; its last words are translated, the other one answers."""
    with Cluster((1, 1)) as cluster:
        cluster.ready()
        for i in range(2):
            size = (4 * MIB, MIB)[i]
            cluster.workers[i].send(Step(id=1, what="collective", collective="all_reduce", bytes=size))
        (died,) = cluster.all_of(Died, 1)
        assert died.rank == 1
        sentences(died.reason.partition(" | ")[0])
        (done,) = cluster.done(1, 1)
        assert done.rank == 0 and done.error


@pytest.mark.long
def test_without_a_group_of_all_pairs_are_measured_and_collectives_say_why(sentences: Sentences) -> None:
    """Where some pair of nodes cannot reach each other."""
    with Cluster((2, 1), pairs_only=True) as cluster:
        assert {tuple(message.lacks) for message in cluster.ready()} == {COLLECTIVES}
        done = cluster.do("bandwidth", answers=2, pairs=[(2, 0)], bytes=4096)
        assert [message.error for message in done] == [None, None]
        done = cluster.do("collective", collective="all_reduce", bytes=4096)
        sentences(sorted({message.error or "" for message in done}))


def test_an_interface_that_does_not_exist_leaves_no_rank_hanging() -> None:
    """gloo says so in every rank; without a group of all the probe can still go on."""
    with Cluster((2,), iface="nope0") as cluster:
        notes = cluster.all_of(Note, 2)
        assert all("nope0" in message.text for message in notes)


def test_a_broken_torch_is_reported_before_any_rank_exists(sentences: Sentences) -> None:
    """The import fails in many ways; one line says so."""
    worker = Worker("sys.modules['torch.distributed'] = None;")
    slots = [NodeSlot(rank=0, local=0)]
    worker.send(Prepare(backend="gloo", world_size=1, slots=slots, store_address="127.0.0.1", store_port=1))
    received = worker.wait(bool)
    assert isinstance(received[0], Died) and received[0].rank is None
    sentences(received[0].reason.partition(": ")[0])
    assert worker.close() == 1


def test_a_worker_that_is_stopped_first_leaves() -> None:
    """The probe was cancelled before the ranks were wanted."""
    worker = Worker()
    worker.send(Stop())
    assert worker.close() == 0
