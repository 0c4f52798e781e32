"""What a probe was asked to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Collective: TypeAlias = Literal[
    "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "send_recv"
]
PairMode: TypeAlias = Literal["full", "quick", "none"]

COLLECTIVES: tuple[Collective, ...] = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "broadcast",
    "all_to_all",
    "send_recv",
)
MIB = 1 << 20
SIZES = (1 * MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
"""Of the whole buffer, as nccl-tests counts: a rank's share x ranks where every rank has a share."""


@dataclass(frozen=True)
class ProbeRequest:
    """The options of one probe; the defaults are those of the command line."""

    collectives: tuple[Collective, ...] = COLLECTIVES
    sizes: tuple[int, ...] = SIZES
    pairs: PairMode = "full"
    """full: every pair of nodes and, inside a node, of ranks; quick: two rounds, which find nodes only."""
    gpu_checks: bool = True
    """Matrix multiplication, device copy and host copies of every GPU (nothing on CPU ranks)."""
    ranks_per_node: int | None = None
    """None: one a GPU; on a node without GPUs one for every core, 4 at most."""
    budget_s: float = 180.0
    """When it is used up, the probe stops measuring and judges what it has."""
    iface: str | None = None
    """The network interface on every node, over what the subnets state."""
    backend: Literal["nccl", "gloo"] | None = None
    """None: nccl where every rank has a GPU and torch has it, gloo otherwise."""
    busy_too: bool = False
    """Run although processes hold the GPUs: it disturbs them."""
    timeout_s: float = 30.0
    """Of one collective or pair; a hang is reported after so long."""
