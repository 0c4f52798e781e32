"""The whole way on one node: real gloo ranks, by orders alone, over a local carrier."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from gpuwatch.link.dialers import dial_local
from gpuwatch.probe.protocol import (
    Died,
    Done,
    Leaving,
    Listen,
    Listening,
    NodeSlot,
    Prepare,
    Ready,
    Step,
    Stop,
)
from tests.parts import need_torch
from tests.probe.launcher.driving import Driven, children, gone, listeners


def slots(count: int) -> list[NodeSlot]:
    return [NodeSlot(rank=rank, local=rank) for rank in range(count)]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("activate", [None, "export LOADED=1"])
def test_two_gloo_ranks_join_measure_and_leave_nothing(activate: str | None) -> None:
    need_torch()
    with Driven(dial_local, python=sys.executable, activate=activate, modules=None) as driven:
        inventory = driven.inventory()
        assert inventory.python_from == ("hosts file" if activate is None else "activate")
        driven.send(Listen(address="127.0.0.1"))
        here = driven.until(Listening)
        driven.send(
            Prepare(backend="gloo", world_size=2, slots=slots(2), store_address="127.0.0.1",
                    store_port=here.port, store_here=True, iface="lo"),
        )  # fmt: skip
        ready = [driven.until(Ready, lambda message, rank=rank: message.rank == rank) for rank in range(2)]  # type: ignore[misc]
        everyone = [inventory.pid, *children(inventory.pid)]
        assert {one.pid for one in ready} <= set(everyone)
        assert {one.torch for one in ready} == {inventory.torch}
        listening = set().union(*(listeners(pid) for pid in everyone))
        assert ("127.0.0.1", here.port) in listening
        assert {address for address, _ in listening} == {"127.0.0.1"}
        driven.send(
            Step(id=1, what="collective", collective="all_reduce", bytes=1 << 20, iterations=3, check=True)
        )
        done = [driven.until(Done, lambda message, rank=rank: message.rank == rank) for rank in range(2)]  # type: ignore[misc]
        assert [(one.correct, one.error, len(one.times_s)) for one in done] == [(True, None, 3)] * 2
        driven.send(Stop())
        assert driven.until(Leaving).reason == "stopped"
        assert gone(*everyone)
        assert not any(isinstance(message, Died) for message in driven.message)


@pytest.mark.parametrize(
    "end",
    [
        "connection closes",
        "launcher killed",
        pytest.param("launcher stopped", marks=pytest.mark.long),
        pytest.param("worker killed", marks=pytest.mark.long),
    ],
)
def test_real_ranks_end_in_the_middle_of_a_step(end: str) -> None:
    need_torch()
    # A launcher that is stopped cannot see that the connection has ended: the worker ends it too.
    silence_s = 8.0 if end == "launcher stopped" else None
    with Driven(dial_local, python=sys.executable, modules=None, worker_silence_s=silence_s) as driven:
        driven.send(Listen(address="127.0.0.1"))
        here = driven.until(Listening)
        driven.send(
            Prepare(backend="gloo", world_size=2, slots=slots(2), store_address="127.0.0.1",
                    store_port=here.port, store_here=True, iface="lo"),
            Step(id=1, what="collective", collective="all_reduce", bytes=64 << 20, iterations=10_000),
        )  # fmt: skip
        driven.until(Ready, lambda message: message.rank == 1)
        launcher = driven.inventory().pid
        worker, *ranks = children(launcher)
        if end == "connection closes":
            driven.close()
        else:
            how = signal.SIGSTOP if end == "launcher stopped" else signal.SIGKILL
            os.kill(worker if end == "worker killed" else launcher, how)
        assert gone(worker, *ranks, within_s=60.0)
        if end == "worker killed":
            assert "SIGKILL" in driven.until(Died, lambda message: message.rank is None).reason
        else:
            assert gone(launcher)
