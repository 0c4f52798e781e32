"""The messages between the conductor and a node's launcher: one JSON object per line, in both directions.

The launcher is sent like the agent (`link.start.bundle`); after the mark it writes `NodeMessage` and receives
`Order`. The end of its stdin ends every process that it started. The ranks run in one more process, the
worker, which it starts at `Prepare`; it passes `Prepare`, `Step` and `Stop` on unchanged, and returns the
worker's lines. Times are seconds, sizes bytes, rates bytes per second unless a name states otherwise.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from gpuwatch.probe.probe_request import Collective
from gpuwatch.wire.limits import Few

# ---- what a node has


class GpuUser(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A process that used a GPU before the probe started anything."""

    pid: int
    name: str | None = None
    user: str | None = None
    memory_bytes: int | None = None


class InventoryGpu(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A GPU as NVML reports it; CUDA is not used for this."""

    index: int
    uuid: str
    name: str | None = None
    bus_id: str | None = None
    pci_path: str | None = None
    """Path of the GPU under /sys/devices: the root complex, and every bridge down to it."""
    numa: int | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    util_pct: float | None = None
    users: list[GpuUser] = []


class InventoryNic(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A network interface with an address; loopback is listed too."""

    name: str
    address: str
    """The IPv4 or IPv6 address, without the prefix length."""
    prefix: int
    up: bool = True
    speed_bps: float | None = None
    """Speed in bytes per second, as in `wire.Nic`."""


class InventoryPort(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An InfiniBand or RoCE port."""

    device: str
    port: int
    state: str | None = None
    link_layer: str | None = None
    rate_gbps: float | None = None
    """Rate in giga*bits* per second, as the kernel prints it."""
    pci_path: str | None = None
    """PCI path in /sys, as `pci_path` of a GPU."""
    numa: int | None = None


# ---- what a node states


class NodeMessage(msgspec.Struct, tag_field="kind", frozen=True, omit_defaults=True, kw_only=True):
    """A message of a launcher or of a rank: one line."""


class NodeInventory(NodeMessage, tag="inventory", frozen=True, kw_only=True):
    """The preflight: the first line of a launcher except for `Alive`, sent without an order."""

    host: str
    boot_id: str | None = None
    """The boot id, equal for two names of one machine; no other machine can see it."""
    pid: int
    python: str | None = None
    """The interpreter that will run the ranks; None if none has torch."""
    python_from: str | None = None
    """Why this interpreter was chosen: "hosts file", "activate", "process 4711 (train.py)", "PATH"."""
    torch: str | None = None
    """The version of torch from the package's metadata; torch was not imported."""
    tried: list[str] = []
    """Interpreters that were rejected, and why."""
    cpus: int | None = None
    gpus: Few[InventoryGpu] = []
    nics: Few[InventoryNic] = []
    ports: Few[InventoryPort] = []
    nccl: dict[str, str] = {}
    """NCCL's settings that select its ports, such as NCCL_IB_HCA."""
    notes: list[str] = []
    """Remarks on values that could not be read."""


class Listening(NodeMessage, tag="listening", frozen=True, kw_only=True):
    """The answer to `Listen`: where others can reach this node."""

    address: str
    port: int
    error: str | None = None


class Reach(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """The result of one connection attempt."""

    node: str
    ok: bool
    connect_s: float | None = None
    error: str | None = None
    """The error in words: refused, no answer within 5 s (a firewall drops it), no route, ..."""


class Reached(NodeMessage, tag="reached", frozen=True, kw_only=True):
    """The answer to `TryReach`."""

    tries: list[Reach]


class Alive(NodeMessage, tag="alive", frozen=True, kw_only=True):
    """Sent every few seconds from the launcher's start to its end, so that silence means a failure."""

    worker: str | None = None
    """The worker's state in /proc: R, S, D (waits for a disk or a file system), T (stopped)."""


class Arrived(NodeMessage, tag="arrived", frozen=True, kw_only=True):
    """A rank has imported torch and reached the store, where it waits for the others."""

    rank: int


class Ready(NodeMessage, tag="ready", frozen=True, kw_only=True):
    """A rank has joined the group."""

    rank: int
    pid: int
    backend: str
    """The backend in use: "nccl" or "gloo"."""
    torch: str
    nccl: str | None = None
    nccl_backend: str | None = None
    """The implementation that torch selected for the name (torch 2.15 has three)."""
    device: str = "cpu"
    """The GPU's name, or cpu."""
    gpu: str | None = None
    """UUID."""
    import_s: float | None = None
    init_s: float | None = None
    lacks: list[str] = []
    """Collectives that this torch and backend do not support."""


class Done(NodeMessage, tag="done", frozen=True, kw_only=True):
    """A rank has ended a step, successfully or not."""

    step: int
    rank: int
    peer: int | None = None
    """The other rank, for a pair step, which both ends answer."""
    times_s: list[float] = []
    """Times of the timed iterations, as this rank measured them, without warm-up."""
    correct: bool | None = None
    """True if the result was correct; None if it was not checked."""
    value: float | None = None
    """The result of a GPU check: FLOP/s of a matmul, bytes per second of a copy."""
    error: str | None = None
    absent: list[int] = []
    """For a collective: the ranks that did not reach the barrier before it.

    All ranks that reached it get the same list.
    """


class Died(NodeMessage, tag="died", frozen=True, kw_only=True):
    """A rank, or the worker itself (`rank` is None), ended unexpectedly."""

    rank: int | None = None
    reason: str
    """The exit code or signal in words, and the last lines on stderr."""
    cause: Literal["own", "connections"] | None = None
    """What the rank states of its end while it joined: a fault of its own, or of the connections.

    Others and the network can cause the latter. None: it stated nothing.
    """


class Transport(NodeMessage, tag="transport", frozen=True, kw_only=True):
    """The transports in NCCL's log: "NET/IB", "NET/Socket", "P2P/CUMEM", ..."""

    rank: int
    transports: list[str]


class Counters(NodeMessage, tag="counters", frozen=True, kw_only=True):
    """The answer to `Count`: counter name -> total since boot; names that begin with `=` are gauges.

    `ib:mlx5_0/1:symbol_error`, `tcp:retransmits`, `nic:eth0:rx_errors`, `nvlink:GPU-...:replay`,
    `=pcie:GPU-...:gen`, `=pcie:GPU-...:width`.
    """

    values: dict[str, float]


class Note(NodeMessage, tag="note", frozen=True, kw_only=True):
    """A note for the user."""

    text: str
    rank: int | None = None


class Leaving(NodeMessage, tag="leaving", frozen=True, kw_only=True):
    """The launcher exits; everything that it started has ended."""

    reason: str


AnyNodeMessage: TypeAlias = (
    NodeInventory
    | Listening
    | Reached
    | Alive
    | Arrived
    | Ready
    | Done
    | Died
    | Transport
    | Counters
    | Note
    | Leaving
)

# ---- what a node receives


class Order(msgspec.Struct, tag_field="do", frozen=True, omit_defaults=True, kw_only=True):
    """An order to a launcher: one line."""


class Listen(Order, tag="listen", frozen=True, kw_only=True):
    """Listen on this address, at any free port; the store uses the socket on its node."""

    address: str


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The address at which another node listens."""

    node: str
    address: str
    port: int


class TryReach(Order, tag="reach", frozen=True, kw_only=True):
    """Connect to all targets at once, from the address of `Listen`."""

    targets: list[Target]
    timeout_s: float = 5.0


class NodeSlot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The slot of one rank on this node: its GPU, or none for a CPU rank."""

    rank: int
    local: int
    gpu: str | None = None
    """UUID; None: a CPU rank."""
    gpu_index: int | None = None


class Prepare(Order, tag="prepare", frozen=True, kw_only=True):
    """Import torch, fork the ranks and join the group; every rank answers with a `Ready`."""

    backend: Literal["nccl", "gloo"]
    world_size: int
    slots: list[NodeSlot]
    store_address: str
    store_port: int
    store_here: bool = False
    """True if the store is on this node: its worker hosts it, on the socket of `Listen`."""
    iface: str | None = None
    """The interface for NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME."""
    timeout_s: float = 30.0
    join_s: float = 30.0
    """Seconds for which the ranks wait for each other to arrive: one node may import torch slowly."""
    pairs_only: bool = False
    """True if some pair of nodes cannot communicate: make groups of two only, none of all ranks."""
    secret: str = ""
    """The secret of this probe, without which nobody reads or writes the store."""


class Step(Order, tag="step", frozen=True, kw_only=True):
    """One measurement. Every rank that takes part answers with `Done`; the others continue to read."""

    id: int
    what: Literal["collective", "bandwidth", "latency", "matmul", "copy", "h2d", "d2h"]
    collective: Collective | None = None
    pairs: list[tuple[int, int]] = []
    """(source rank, destination rank) of bandwidth and latency; no rank is in two pairs.

    Data flows in one direction.
    """
    ranks: list[int] = []
    """The ranks of a GPU check; empty: all."""
    bytes: int = 0
    """Size in bytes of the whole buffer, as in `probe_request.SIZES`; for a pair: of one message."""
    warmup: int = 1
    iterations: int = 5
    check: bool = False
    """True to compare the result with the expected one, outside of the timed iterations."""
    timeout_s: float = 30.0


class Count(Order, tag="count", frozen=True, kw_only=True):
    """Send the counters of the node."""


class Stop(Order, tag="stop", frozen=True, kw_only=True):
    """End the ranks in order, then exit."""


AnyOrder: TypeAlias = Listen | TryReach | Prepare | Step | Count | Stop
