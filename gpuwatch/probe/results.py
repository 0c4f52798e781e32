"""The measurements of a probe, which screens and reports show and the judge reads."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct, field

from gpuwatch.probe.probe_request import Collective, ProbeRequest
from gpuwatch.probe.protocol import GpuUser, NodeInventory
from gpuwatch.probe.verdict import ProbeVerdict

Phase: TypeAlias = Literal[
    "connecting",  # the launchers are on their way
    "asking",  # the inventory is known, the plan made: it waits for `confirm`
    "reaching",  # which nodes can connect to which
    "starting",  # torch is imported, the ranks join
    "collectives",
    "pairs",
    "retesting",
    "gpus",
    "done",
    "refused",  # GPUs are busy, no torch, no common network: `reason` states it; nothing was measured
    "failed",  # it could not go on; what was measured before stays
    "cancelled",
]
ENDED: frozenset[Phase] = frozenset({"done", "refused", "failed", "cancelled"})

LinkClass: TypeAlias = Literal["same_node", "same_rail", "cross_rail"]
"""The class of a link; only links of one class are compared. same_rail: equal local ranks on two nodes."""


class RankSlot(Struct, frozen=True):
    """The slot of one rank: its node, GPU and NIC."""

    rank: int
    node: str
    local: int
    device: str = "cpu"
    """The GPU's name, or cpu."""
    gpu: int | None = None
    """The GPU's index on its node."""
    nic: str | None = None
    """The interface or RDMA device that its traffic uses, if known."""

    @property
    def name(self) -> str:
        """The name of the slot: `gpu-003 GPU 4`, or `gpu-003 rank 12` for a CPU rank."""
        return f"{self.node} rank {self.rank}" if self.gpu is None else f"{self.node} GPU {self.gpu}"


class CollectiveResult(Struct, frozen=True):
    """The result of one collective at one size. Rates are GB/s (10^9 bytes), by nccl-tests' formulas."""

    op: Collective
    bytes: int
    p50_s: float | None = None
    min_s: float | None = None
    p99_s: float | None = None
    cv: float | None = None
    """Standard deviation over mean of the iterations, each with the time of its slowest rank."""
    algbw_gb_per_s: float | None = None
    busbw_gb_per_s: float | None = None
    nic_gb_per_s: float | None = None
    """busbw x (nodes - 1) / (ranks - 1): the rate of one rank's NIC, comparable with its data sheet."""
    correct: bool | None = None
    least_waiting: int | None = None
    """The rank that waited least by a clear margin: the others waited for it."""
    error: str | None = None


class PairResult(Struct, frozen=True):
    """The result of one directed link between two ranks."""

    src: int
    dst: int
    link: LinkClass
    ok: bool
    bandwidth_gb_per_s: float | None = None
    latency_us: float | None = None
    spread: float | None = None
    """(max - min) / median of the repeats."""
    retested: bool = False
    """True if this is the result of a second measurement, alone."""
    error: str | None = None


class GpuResult(Struct, frozen=True):
    """The results of one GPU's tests, in FLOP/s and bytes per second; None: not measured."""

    rank: int
    matmul_flops: float | None = None
    copy_bps: float | None = None
    h2d_bps: float | None = None
    d2h_bps: float | None = None


class Unreachable(Struct, frozen=True):
    """A node that could not connect to another one, before anything was measured."""

    src: str
    dst: str
    error: str


class CounterChange(Struct, frozen=True):
    """A counter of a node that increased during the probe, or a gauge under load."""

    node: str
    name: str
    """The name in `protocol.Counters`."""
    before: float
    after: float


class Estimate(Struct, frozen=True):
    """The expected time and traffic of a probe, shown before it starts."""

    nodes: int
    ranks: int
    backend: Literal["nccl", "gloo"]
    seconds: float
    traffic_bytes: int
    """Between nodes, in total."""
    rounds: int
    pairs: int
    interface: str
    """A description of the interfaces: "ib0 (10.1.0.0/16)", "eth0 on 3 nodes, ens5 on 1"."""


class ProbedNode(Struct, frozen=True):
    """The result of one node's preflight."""

    node: str
    inventory: NodeInventory | None = None
    problem: str | None = None
    """Why this node cannot take part, in one sentence with the remedy."""


class Results(Struct):
    """All results of one probe. Written by the conductor's thread alone; lists grow or have items replaced.

    `version` increases with every change: painters check it, and copy what they need.
    """

    request: ProbeRequest
    started: float
    """Start of the probe (unix seconds)."""
    phase: Phase = "connecting"
    reason: str = ""
    version: int = 0
    nodes: list[ProbedNode] = field(default_factory=list)
    busy: dict[str, list[GpuUser]] = field(default_factory=dict)
    """Node -> the processes on its GPUs."""
    estimate: Estimate | None = None
    backend: str | None = None
    torch: str | None = None
    nccl: str | None = None
    slots: list[RankSlot] = field(default_factory=list)
    gone: dict[int, str] = field(default_factory=dict)
    """Rank -> why it takes no further part: it crashed, missed a barrier, or its node was lost."""
    unreachable: list[Unreachable] = field(default_factory=list)
    collectives: list[CollectiveResult] = field(default_factory=list)
    pairs: dict[tuple[int, int], PairResult] = field(default_factory=dict)
    gpus: dict[int, GpuResult] = field(default_factory=dict)
    counters: list[CounterChange] = field(default_factory=list)
    transports: dict[str, list[int]] = field(default_factory=dict)
    """Transport -> the ranks that use it."""
    notes: list[str] = field(default_factory=list)
    verdict: ProbeVerdict | None = None
    """The verdict: preliminary while the probe runs, final after its end."""
    done_steps: int = 0
    all_steps: int = 0
    left_s: float | None = None
    """Estimated seconds to the end."""
    ended: float | None = None
    """End of the probe (unix seconds)."""
    testing: tuple[tuple[int, int], ...] = ()
    """The pairs that are being measured now."""

    @property
    def over(self) -> bool:
        """True if nothing more will be received (except for a retest)."""
        return self.phase in ENDED


def slots_by_rank(results: Results) -> dict[int, RankSlot]:
    """Return rank -> its slot (node and GPU)."""
    return {slot.rank: slot for slot in results.slots}
