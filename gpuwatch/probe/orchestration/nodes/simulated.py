"""DEMO: simulated nodes that answer a probe like a cluster of H100 with NDR InfiniBand, only faster.

One node's port for one GPU runs at a quarter of its rate and counts symbol errors, like a badly seated cable.
Everything is derived from names and numbers, so two probes of one plan give the same results. The time that
the nodes *take* is compressed; the times that they *report* are those of the model.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from gpuwatch.link.demo.machines import uuid
from gpuwatch.link.demo.scenario import GPUS_PER_NODE, noise
from gpuwatch.probe.orchestration.nodes.node_line import Lost, OnMessage, Received
from gpuwatch.probe.probe_request import Collective
from gpuwatch.probe.protocol import (
    AnyNodeMessage,
    AnyOrder,
    Count,
    Counters,
    Done,
    InventoryGpu,
    InventoryNic,
    InventoryPort,
    Leaving,
    Listen,
    Listening,
    NodeInventory,
    NodeSlot,
    Prepare,
    Reach,
    Reached,
    Ready,
    Step,
    Stop,
    Transport,
    TryReach,
)

SEED = 4
GPU_NAME = "DEMO H100 80GB"
BAD_GPU = 3
"""The local rank with the bad InfiniBand port, on the node at three quarters of the plan."""
BAD_SHARE = 0.26
NVLINK, RAIL, ACROSS = 368e9, 48.6e9, 46.8e9
"""Bytes per second of one pair: within a node, on the same rail, across rails."""
NVLINK_US, IB_US = 6.2, 11.4
HALF_BYTES = 12 << 20
"""Size in bytes of a collective that reaches half of its peak rate."""
HOP_S = 9e-6
PEAK: dict[Collective, float] = {
    "all_reduce": 345e9, "all_gather": 331e9, "reduce_scatter": 327e9, "broadcast": 290e9, "all_to_all": 43e9,
    "send_recv": 47e9,
}  # fmt: skip
"""The bus bandwidth of each collective over healthy links, in bytes per second."""
CHECKS = {"matmul": 6.92e14, "copy": 2.61e12, "h2d": 5.52e10, "d2h": 5.31e10}
SYMBOL_ERRORS = 418.0

CONNECT_S, REACH_S, START_S, STOP_S, COUNT_S = 0.9, 0.5, 1.6, 0.2, 0.05
STEP_S = {"collective": 0.11, "bandwidth": 0.085, "latency": 0.05}
CHECK_S = 0.4
STAGGER_S = 0.9
"""The nodes' first answers are spread over this many seconds."""


class Simulation:
    """The simulated cluster: a queue of due messages, and one thread that sends them.

    The thread ends with the last connection.
    """

    def __init__(self, names: Sequence[str], pace: float = 1.0) -> None:
        """Create the nodes.

        Args:
            names: The nodes, in the order of the plan.
            pace: Real seconds per simulated second; 0: everything is answered at once.
        """
        self.names = list(names)
        self.bad = len(names) * 3 // 4 if len(names) > 1 else -1
        """The index of the node with the bad port."""
        self.pace = pace
        self.places: dict[int, tuple[int, int]] = {}
        """Rank -> (node, local rank)."""
        self._due: list[tuple[float, int, SimulatedLine, Received]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._open = 0
        self._partners: tuple[int, dict[int, tuple[int, int]]] = (-1, {})

    def line(self, node: str) -> SimulatedLine:
        """Return the connection to one of the nodes."""
        return SimulatedLine(self, self.names.index(node), node)

    def join(self) -> None:
        """Register an opened connection; the first starts the thread, unless the pace is 0."""
        with self._changed:
            self._open += 1
            if self._open == 1 and self.pace:
                threading.Thread(target=self._run, name="simulated probe", daemon=True).start()

    def leave(self, line: SimulatedLine) -> None:
        """Remove a closed connection and its due messages."""
        with self._changed:
            self._open -= 1
            self._due = [each for each in self._due if each[2] is not line]
            heapq.heapify(self._due)
            self._changed.notify()

    def emit(self, line: SimulatedLine, message: Received, after_s: float) -> None:
        """Let a node send a message after a delay, which is multiplied by the pace (0: at once)."""
        if not self.pace:
            line.speak(message)
            return
        with self._changed:
            at = time.monotonic() + after_s * self.pace
            heapq.heappush(self._due, (at, next(self._order), line, message))
            self._changed.notify()

    def partner(self, step: Step, rank: int) -> tuple[int, int] | None:
        """Return the pair of a step that contains a rank, or None."""
        if self._partners[0] != step.id:
            self._partners = step.id, {end: pair for pair in step.pairs for end in pair}
        return self._partners[1].get(rank)

    def _run(self) -> None:
        while True:
            with self._changed:
                while self._open and (not self._due or self._due[0][0] > time.monotonic()):
                    self._changed.wait(self._due[0][0] - time.monotonic() if self._due else None)
                if not self._open:
                    return
                _, _, line, message = heapq.heappop(self._due)
            line.speak(message)

    # ---- the model

    def is_bad(self, rank: int) -> bool:
        """Return True if the rank's traffic uses the bad port."""
        return self.places.get(rank) == (self.bad, BAD_GPU)

    def rate(self, src: int, dst: int) -> float:
        """Return the bytes per second from one rank to another."""
        (a, i), (b, j) = self.places[src], self.places[dst]
        usual = NVLINK if a == b else RAIL if i == j else ACROSS
        share = BAD_SHARE if a != b and (self.is_bad(src) or self.is_bad(dst)) else 1.0
        return usual * share * (1.0 + 0.012 * noise(SEED, src, dst))

    def latency_s(self, src: int, dst: int) -> float:
        """Return the seconds that a message takes in one direction."""
        usual = NVLINK_US if self.places[src][0] == self.places[dst][0] else IB_US
        return usual * 1e-6 * (1.0 + 0.05 * noise(SEED, src, dst, 1))

    def collective_s(self, op: Collective, size: int) -> float:
        """Return the seconds of one iteration: a start-up time, and the bytes at a growing rate."""
        ranks = len(self.places)
        nodes = len({node for node, _ in self.places.values()})
        factor = {"all_reduce": 2 * (ranks - 1) / ranks, "broadcast": 1.0, "send_recv": 1.0}.get(
            op, (ranks - 1) / ranks
        )
        peak = PEAK[op] * (1.35 if nodes == 1 else 1.0)
        if nodes > 1 and any(self.is_bad(rank) for rank in self.places):
            peak *= BAD_SHARE * 1.15
        return HOP_S * math.ceil(math.log2(max(2, ranks))) + (size + HALF_BYTES) * factor / peak


class SimulatedLine:
    """The `NodeLine` of one simulated node."""

    labels: Mapping[str, str] = MappingProxyType({"demo": "simulated"})

    def __init__(self, simulation: Simulation, number: int, node: str) -> None:
        self.node = node
        self.number = number
        self._simulation = simulation
        self._receive: OnMessage | None = None
        self._slots: list[NodeSlot] = []
        self._counted = 0

    def open(self, receive: OnMessage) -> None:
        """Answer with the inventory, after the usual time of a login."""
        self._receive = receive
        self._simulation.join()
        late = STAGGER_S * (noise(SEED, self.number, 9) + 1.0) / 2.0
        self._simulation.emit(self, self._inventory(), CONNECT_S + late)

    def speak(self, message: Received) -> None:
        """Send a message, if the connection is open."""
        receive = self._receive
        if receive is not None:
            receive(self.node, message)

    def send(self, order: AnyOrder) -> bool:
        """Process an order, whose answers are sent when they are due.

        Return False: the connection is closed.
        """
        if self._receive is None:
            return False
        for message, after_s in self._answers(order):
            self._simulation.emit(self, message, after_s)
        return True

    def close(self) -> None:
        """End at once; `Lost` is the last message."""
        if self._receive is not None:
            self.speak(Lost("closed"))
            self._receive = None
            self._simulation.leave(self)

    def _answers(self, order: AnyOrder) -> Iterator[tuple[AnyNodeMessage, float]]:
        if isinstance(order, Listen):
            yield Listening(address=order.address, port=40_000 + self.number), COUNT_S
        elif isinstance(order, TryReach):
            tries = [Reach(node=target.node, ok=True, connect_s=1.1e-4) for target in order.targets]
            yield Reached(tries=tries), REACH_S
        elif isinstance(order, Prepare):
            yield from self._prepared(order)
        elif isinstance(order, Step):
            yield from self._steps(order)
        elif isinstance(order, Count):
            yield Counters(values=self._counters()), COUNT_S
        elif isinstance(order, Stop):
            yield Leaving(reason="stop requested"), STOP_S

    def _prepared(self, order: Prepare) -> Iterator[tuple[AnyNodeMessage, float]]:
        self._slots = order.slots
        self._simulation.places.update({slot.rank: (self.number, slot.local) for slot in order.slots})
        for slot in order.slots:
            ready = Ready(
                rank=slot.rank, pid=52_000 + slot.rank, backend="nccl", torch="2.13.0+cu130", nccl="2.28.9",
                device=GPU_NAME, gpu=slot.gpu, import_s=1.4, init_s=0.2,
            )  # fmt: skip
            yield ready, START_S + 0.3 * (noise(SEED, slot.rank, 5) + 1.0)
            yield Transport(rank=slot.rank, transports=["P2P", "NET/IB"]), START_S + 0.6

    def _steps(self, step: Step) -> Iterator[tuple[AnyNodeMessage, float]]:
        after_s = STEP_S.get(step.what, CHECK_S)
        for slot in self._slots:
            if step.what in CHECKS:
                if not step.ranks or slot.rank in step.ranks:
                    value = CHECKS[step.what] * (1.0 + 0.008 * noise(SEED, slot.rank, len(step.what)))
                    yield Done(step=step.id, rank=slot.rank, value=value), after_s
            elif step.what == "collective":
                yield self._collective(step, slot.rank), after_s
            elif (pair := self._simulation.partner(step, slot.rank)) is not None:
                yield self._pair(step, slot.rank, pair), after_s

    def _collective(self, step: Step, rank: int) -> Done:
        usual = self._simulation.collective_s(step.collective or "all_reduce", step.bytes)
        return Done(step=step.id, rank=rank, times_s=self._around(usual, step, rank), correct=True)

    def _pair(self, step: Step, rank: int, pair: tuple[int, int]) -> Done:
        src, dst = pair
        usual = self._simulation.latency_s(src, dst)
        if step.what == "bandwidth":
            usual += step.bytes / self._simulation.rate(src, dst)
        peer = dst if rank == src else src
        return Done(step=step.id, rank=rank, peer=peer, times_s=self._around(usual, step, src))

    def _around(self, usual: float, step: Step, key: int) -> list[float]:
        return [usual * (1.0 + 0.01 * noise(SEED, step.id, key, i)) for i in range(step.iterations)]

    def _inventory(self) -> NodeInventory:
        a, b = divmod(self.number, 250)
        return NodeInventory(
            host=self.node,
            pid=51_000 + self.number,
            python="/opt/demo/venv/bin/python3",
            python_from="PATH",
            torch="2.13.0+cu130",
            cpus=224,
            gpus=[
                InventoryGpu(
                    index=gpu,
                    uuid=uuid(self.number, gpu),
                    name=GPU_NAME,
                    memory_total_bytes=81_559 << 20,
                    pci_path=place(gpu, 1),
                    numa=gpu * 2 // GPUS_PER_NODE,
                )
                for gpu in range(GPUS_PER_NODE)
            ],
            nics=[
                InventoryNic(name="lo", address="127.0.0.1", prefix=8),
                InventoryNic(name="bond0", address=f"10.79.{a}.{b + 1}", prefix=16, speed_bps=12.5e9),
            ],
            ports=[
                InventoryPort(
                    device=f"mlx5_{gpu}",
                    port=1,
                    state="ACTIVE",
                    link_layer="InfiniBand",
                    rate_gbps=400.0,
                    pci_path=place(gpu, 0),
                    numa=gpu * 2 // GPUS_PER_NODE,
                )
                for gpu in range(GPUS_PER_NODE)
            ],
            notes=["DEMO: simulated without a job; a real node refuses a probe while a job runs"],
        )

    def _counters(self) -> dict[str, float]:
        """Return the counters as totals since boot; those of the bad port grow with every reading."""
        self._counted += 1
        found = {}
        for gpu in range(GPUS_PER_NODE):
            found[f"ib:mlx5_{gpu}/1:symbol_error"] = 2.0
            found[f"ib:mlx5_{gpu}/1:link_error_recovery"] = 0.0
        if self.number == self._simulation.bad:
            grown = SYMBOL_ERRORS * (self._counted - 1)
            found[f"ib:mlx5_{BAD_GPU}/1:symbol_error"] += grown
            found[f"ib:mlx5_{BAD_GPU}/1:link_error_recovery"] = float(3 * (self._counted - 1))
        return found


def place(switch: int, slot: int) -> str:
    """Return a device's path under /sys/devices, behind the PCIe switch of its GPU."""
    root, upstream, port, device = 16 * switch, 16 * switch + 1, 16 * switch + 2, 16 * switch + 3 + slot
    return (
        f"pci0000:{root:02x}/0000:{root:02x}:01.0/0000:{upstream:02x}:00.0/"
        f"0000:{port:02x}:{slot:02x}.0/0000:{device:02x}:00.0"
    )
