"""Nodes for a conductor, by script: a fabric with rates, and what goes wrong on it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gpuwatch.probe.orchestration.conductor import Conductor
from gpuwatch.probe.orchestration.nodes.node_line import Lost, OnMessage
from gpuwatch.probe.protocol import (
    AnyOrder,
    Count,
    Counters,
    Died,
    Done,
    InventoryGpu,
    InventoryNic,
    Leaving,
    Listen,
    Listening,
    NodeInventory,
    Prepare,
    Reach,
    Reached,
    Ready,
    Step,
    Stop,
    TryReach,
)
from gpuwatch.probe.results import Phase

GIB = 1 << 30


def inventory(name: str, number: int, gpus: int = 0, *, torch: str | None = "2.13.0") -> NodeInventory:
    """A node on 10.1.0.0/16 with a bridge that every node has."""
    return NodeInventory(
        host=name,
        pid=100 + number,
        python="/usr/bin/python3",
        python_from="PATH",
        torch=torch,
        cpus=2,
        gpus=[InventoryGpu(index=at, uuid=f"GPU-{number}-{at}", name="H100") for at in range(gpus)],
        nics=[
            InventoryNic(name="lo", address="127.0.0.1", prefix=8),
            InventoryNic(name="docker0", address="172.17.0.1", prefix=16),
            InventoryNic(name="eth0", address=f"10.1.{number // 250}.{number % 250 + 1}", prefix=16),
        ],
    )


@dataclass
class Fabric:
    """What the ranks of all nodes would measure."""

    rate: Callable[[int, int], float] = lambda _src, _dst: 2e9
    """(source, destination) -> bytes per second."""
    takes: Callable[[int], float] = lambda size: size / 1e9
    """Bytes of a collective -> seconds."""
    cut: set[frozenset[str]] = field(default_factory=set)
    """Pairs of nodes that cannot connect."""
    mute: set[frozenset[int]] = field(default_factory=set)
    """Pairs of ranks whose nodes connect, and yet nothing comes through."""
    unlucky: Callable[[str, Step, int], Done | Died | bool | None] = lambda _node, _step, _rank: True
    """(node, step, rank) -> what to say instead; None: nothing; True: what it would."""

    _last: tuple[Step | None, dict[int, tuple[int, int]]] = (None, {})

    def peers(self, step: Step) -> dict[int, tuple[int, int]]:
        """Rank -> its pair; all nodes receive the same object."""
        if self._last[0] is not step:
            self._last = (step, {rank: pair for pair in step.pairs for rank in pair})
        return self._last[1]


class ScriptedLine:
    """A node that answers in the thread that tells it."""

    def __init__(self, node: str, inventory: NodeInventory | None, fabric: Fabric) -> None:
        self.node = node
        self.labels: Mapping[str, str] = {}
        self.reported: list[AnyOrder] = []
        self.closed = False
        self._own, self._fabric = inventory, fabric
        self._receive: OnMessage = lambda _node, _message: None
        self._ranks: Sequence[int] = ()
        self._counted = 0

    def open(self, receive: OnMessage) -> None:
        self._receive = receive
        if self._own is None:
            self.lose("connection refused")
        else:
            receive(self.node, self._own)

    def send(self, order: AnyOrder) -> bool:
        if self.closed:
            return False
        self.reported.append(order)
        if isinstance(order, Step):
            self._do(order)
        else:
            self._answer(order)
        return True

    def close(self) -> None:
        if not self.closed:
            self.lose("closed")

    def lose(self, reason: str) -> None:
        self.closed = True
        self._receive(self.node, Lost(reason))

    def steps(self, what: str) -> list[Step]:
        """The steps of a kind that it received."""
        return [order for order in self.reported if isinstance(order, Step) and order.what == what]

    def _answer(self, order: AnyOrder) -> None:
        emit = self._receive
        if isinstance(order, Listen):
            emit(self.node, Listening(address=order.address, port=4000))
        elif isinstance(order, TryReach):
            cut = self._fabric.cut
            tries = [
                Reach(
                    node=each.node,
                    ok=frozenset((self.node, each.node)) not in cut,
                    error="no answer within 5 s",
                )
                for each in order.targets
            ]
            emit(self.node, Reached(tries=tries))
        elif isinstance(order, Prepare):
            self._ranks = [slot.rank for slot in order.slots]
            for rank in self._ranks:
                emit(self.node, Ready(rank=rank, pid=rank, backend=order.backend, torch="2.13.0"))
        elif isinstance(order, Count):
            self._counted += 1
            errors, generation = float(self._counted), 5.0 if self._counted == 2 else 1.0
            values = {"nic:eth0:rx_errors": errors, "ib:x:symbol_error": 5.0, "=pcie:GPU-1:gen": generation}
            emit(self.node, Counters(values=values))
        elif isinstance(order, Stop):
            emit(self.node, Leaving(reason="stopped"))
            self.lose("it has left")

    def _do(self, step: Step) -> None:
        peers = self._fabric.peers(step)
        for rank in self._ranks:
            if step.pairs and rank not in peers:
                continue
            message = self._fabric.unlucky(self.node, step, rank)
            if isinstance(message, bool):
                self._receive(self.node, self._done(step, rank, peers.get(rank)))
            elif message is not None:
                self._receive(self.node, message)
            if self.closed:
                return

    def _done(self, step: Step, rank: int, pair: tuple[int, int] | None) -> Done:
        if step.what == "collective":
            times = [self._fabric.takes(step.bytes)] * step.iterations
            return Done(step=step.id, rank=rank, times_s=times, correct=True)
        if pair is None:
            return Done(step=step.id, rank=rank, value=5e14)
        src, dst = pair
        if frozenset((src, dst)) in self._fabric.mute:
            return Done(step=step.id, rank=rank, error="timed out")
        if step.what == "latency":
            return Done(step=step.id, rank=rank, peer=dst, times_s=[20e-6] * 3 if rank == src else [])
        took = step.bytes / self._fabric.rate(src, dst)
        return Done(
            step=step.id,
            rank=rank,
            peer=src,
            times_s=[took] * step.iterations if rank == dst else [],
            correct=True,
        )


def cluster(nodes: int, gpus: int = 0, fabric: Fabric | None = None) -> list[ScriptedLine]:
    """Nodes gpu-000 to gpu-NNN of one fabric."""
    names = [f"gpu-{number:03}" for number in range(nodes)]
    whole = fabric or Fabric()
    return [ScriptedLine(name, inventory(name, number, gpus), whole) for number, name in enumerate(names)]


def await_until(conductor: Conductor, condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, conductor.results
        time.sleep(0.002)


def await_phase(conductor: Conductor, *phases: Phase) -> None:
    await_until(conductor, lambda: conductor.results.phase in phases)


def confirm_and_wait(conductor: Conductor) -> None:
    await_phase(conductor, "asking", "refused")
    conductor.confirm()
    assert conductor.wait(60)


def did_not_come(step: Step, rank: int, *absent: int) -> Done:
    """What a rank answers when the barrier before a collective names others as not come."""
    return Done(step=step.id, rank=rank, error=f"ranks {absent} did not come", absent=list(absent))
