"""What the conductor and a node's launcher state to each other: one JSON object a line, both ways.

The launcher travels like the agent (`link.start.bundle`); after the mark it writes `NodeMessage` and gets
`Order`. The end of its stdin ends every process it started. The ranks run in one more process, the worker,
which it starts at `Prepare`; it hands `Prepare`, `Step` and `Stop` on as they are, and the worker's lines
back. Times are seconds, sizes bytes, rates bytes per second unless a name states otherwise.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import msgspec

from gpuwatch.probe.probe_request import Collective
from gpuwatch.wire.limits import Few

# ---- what a node has


class GpuUser(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A process that holds a GPU before the probe has started anything."""

    pid: int
    name: str | None = None
    user: str | None = None
    memory_bytes: int | None = None


class InventoryGpu(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A GPU as NVML reports it; CUDA is not touched for this."""

    index: int
    uuid: str
    name: str | None = None
    bus_id: str | None = None
    pci_path: str | None = None
    """Its place under /sys/devices: the root complex, and every bridge down to it."""
    numa: int | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    util_pct: float | None = None
    users: list[GpuUser] = []


class InventoryNic(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """A network interface with an address; loopback is listed too."""

    name: str
    address: str
    """IPv4 or IPv6, without the prefix length."""
    prefix: int
    up: bool = True
    speed_bps: float | None = None
    """Bytes per second, as `link.Nic` has it."""


class InventoryPort(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """An InfiniBand or RoCE port."""

    device: str
    port: int
    state: str | None = None
    link_layer: str | None = None
    rate_gbps: float | None = None
    """Giga*bits* per second, as the kernel prints it."""
    pci_path: str | None = None
    """As of a GPU."""
    numa: int | None = None


# ---- what a node states


class NodeMessage(msgspec.Struct, tag_field="kind", frozen=True, omit_defaults=True, kw_only=True):
    """One line of a launcher or of a rank."""


class NodeInventory(NodeMessage, tag="inventory", frozen=True, kw_only=True):
    """The preflight: the first line of a launcher but for `Alive`, by itself."""

    host: str
    boot_id: str | None = None
    """The same for two names of one machine; no other machine sees it."""
    pid: int
    python: str | None = None
    """The interpreter that will run the ranks; None when none has torch."""
    python_from: str | None = None
    """Why this one: "hosts file", "activate", "process 4711 (train.py)", "PATH"."""
    torch: str | None = None
    """Its version by the package's metadata; nothing was imported."""
    tried: list[str] = []
    """Interpreters that were looked at and why they will not do, in words."""
    cpus: int | None = None
    gpus: Few[InventoryGpu] = []
    nics: Few[InventoryNic] = []
    ports: Few[InventoryPort] = []
    nccl: dict[str, str] = {}
    """NCCL's settings for the ranks that state which ports it uses: NCCL_IB_HCA and the like."""
    notes: list[str] = []
    """What could not be read, in words."""


class Listening(NodeMessage, tag="listening", frozen=True, kw_only=True):
    """The answer to `Listen`: where others can reach this node."""

    address: str
    port: int
    error: str | None = None


class Reach(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One try to connect."""

    node: str
    ok: bool
    connect_s: float | None = None
    error: str | None = None
    """In words: refused, no answer within 5 s (a firewall drops it), no route, ..."""


class Reached(NodeMessage, tag="reached", frozen=True, kw_only=True):
    """The answer to `TryReach`."""

    tries: list[Reach]


class Alive(NodeMessage, tag="alive", frozen=True, kw_only=True):
    """Every few seconds from the launcher's start to its end, so that silence means something."""

    worker: str | None = None
    """The worker's state as /proc has it: R, S, D (waits for a disk or a file system), T (stopped)."""


class Arrived(NodeMessage, tag="arrived", frozen=True, kw_only=True):
    """torch is imported, and the rank has reached the store: it waits for the others there."""

    rank: int


class Ready(NodeMessage, tag="ready", frozen=True, kw_only=True):
    """A rank has joined the group."""

    rank: int
    pid: int
    backend: str
    """What runs: "nccl" or "gloo"."""
    torch: str
    nccl: str | None = None
    nccl_backend: str | None = None
    """Which implementation torch took for the name (torch 2.15 has three)."""
    device: str = "cpu"
    """The GPU's name, or cpu."""
    gpu: str | None = None
    """UUID."""
    import_s: float | None = None
    init_s: float | None = None
    lacks: list[str] = []
    """Collectives that this torch and backend cannot do."""


class Done(NodeMessage, tag="done", frozen=True, kw_only=True):
    """A rank has ended a step, well or not."""

    step: int
    rank: int
    peer: int | None = None
    """Of a pair step: the other rank. Both ends answer."""
    times_s: list[float] = []
    """Of every timed iteration, as this rank saw it, warm-up not among them."""
    correct: bool | None = None
    """Whether the result was what the inputs make it; None when that was not checked."""
    value: float | None = None
    """Of a GPU check: FLOP/s of a matmul, bytes per second of a copy."""
    error: str | None = None
    absent: list[int] = []
    """Of a collective: who did not come to the barrier before it. All ranks that came get the same list."""


class Died(NodeMessage, tag="died", frozen=True, kw_only=True):
    """A rank, or the worker itself (`rank` is None), ended without being ordered to."""

    rank: int | None = None
    reason: str
    """exit code or signal in words, and its last words on stderr."""


class Transport(NodeMessage, tag="transport", frozen=True, kw_only=True):
    """What NCCL stated that it runs over: "NET/IB", "NET/Socket", "P2P/CUMEM", ..."""

    rank: int
    transports: list[str]


class Counters(NodeMessage, tag="counters", frozen=True, kw_only=True):
    """The answer to `Count`. Name -> a total since boot; a gauge where the name begins with `=`.

    `ib:mlx5_0/1:symbol_error`, `tcp:retransmits`, `nic:eth0:rx_errors`, `nvlink:GPU-...:replay`,
    `=pcie:GPU-...:gen`, `=pcie:GPU-...:width`.
    """

    values: dict[str, float]


class Note(NodeMessage, tag="note", frozen=True, kw_only=True):
    """Something a person should know."""

    text: str
    rank: int | None = None


class Leaving(NodeMessage, tag="leaving", frozen=True, kw_only=True):
    """The launcher ends; everything it started has ended."""

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

# ---- what a node is reported


class Order(msgspec.Struct, tag_field="do", frozen=True, omit_defaults=True, kw_only=True):
    """One line to a launcher."""


class Listen(Order, tag="listen", frozen=True, kw_only=True):
    """Listen on this address, port 0; the socket is what TCPStore is given where the store is."""

    address: str


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """Where another node listens."""

    node: str
    address: str
    port: int


class TryReach(Order, tag="reach", frozen=True, kw_only=True):
    """Connect to all of them at once, from the address that was given to `Listen`."""

    targets: list[Target]
    timeout_s: float = 5.0


class RankSeat(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One rank on this node."""

    rank: int
    local: int
    gpu: str | None = None
    """UUID; None: a CPU rank."""
    gpu_index: int | None = None


class Prepare(Order, tag="prepare", frozen=True, kw_only=True):
    """Import torch, fork the ranks, join the group. Answered by a `Ready` of every rank."""

    backend: Literal["nccl", "gloo"]
    world_size: int
    seats: list[RankSeat]
    store_address: str
    store_port: int
    store_here: bool = False
    """The store is on this node: the first seat hosts it, on the socket of `Listen`."""
    iface: str | None = None
    """For NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME."""
    timeout_s: float = 30.0
    join_s: float = 30.0
    """How long the ranks wait for each other to come at all: one node may import torch slowly."""
    pairs_only: bool = False
    """Some pair of nodes cannot reach each other: make no group of all, only groups of two."""
    secret: str = ""
    """Of this probe: hides and signs what the ranks write to the store."""


class Step(Order, tag="step", frozen=True, kw_only=True):
    """One measurement. Every rank it concerns answers with `Done`; the others read on."""

    id: int
    what: Literal["collective", "bandwidth", "latency", "matmul", "copy", "h2d", "d2h"]
    collective: Collective | None = None
    pairs: list[tuple[int, int]] = []
    """Of bandwidth and latency: (source, destination), no rank in two of them. Data flows one way."""
    ranks: list[int] = []
    """Of GPU checks: who does it; empty is everyone."""
    bytes: int = 0
    """Of the whole buffer, as `probe_request.SIZES` counts it; of a pair: of one message."""
    warmup: int = 1
    iterations: int = 5
    check: bool = False
    """Compare the result (outside of the timed iterations)."""
    timeout_s: float = 30.0


class Count(Order, tag="count", frozen=True, kw_only=True):
    """Read the counters."""


class Stop(Order, tag="stop", frozen=True, kw_only=True):
    """End the ranks in order and leave."""


AnyOrder: TypeAlias = Listen | TryReach | Prepare | Step | Count | Stop
