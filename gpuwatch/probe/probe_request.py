"""The options of a probe."""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

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
"""Sizes of the whole buffer in bytes, as in nccl-tests: a rank's share times the number of ranks."""


class ProbeRequest(Struct, frozen=True):
    """The options of one probe; the defaults are those of the command line."""

    collectives: tuple[Collective, ...] = COLLECTIVES
    sizes: tuple[int, ...] = SIZES
    pairs: PairMode = "full"
    """full: every pair of nodes and, within a node, of ranks; quick: two rounds, which find nodes only."""
    gpu_checks: bool = True
    """True for matrix multiplication, device copy and host copies on every GPU (nothing on CPU ranks)."""
    ranks_per_node: int | None = None
    """Number of ranks per node; None: one per GPU, and without GPUs one per core, at most 4."""
    budget_s: float = 180.0
    """Seconds after which the probe stops measuring and judges the results so far."""
    iface: str | None = None
    """The network interface on every node; overrides the choice by subnets."""
    backend: Literal["nccl", "gloo"] | None = None
    """The backend; None: nccl if every rank has a GPU and torch has it, gloo otherwise."""
    busy_too: bool = False
    """True to run although processes use the GPUs, which it disturbs."""
    iterations: int | None = None
    """Number of timed iterations of every collective and size; None: as many as fit into 1 s, 3 to 50."""
    warmup: int = 10
    """Number of warm-up iterations before the timed ones; used only with `iterations`."""
    timeout_s: float = 30.0
    """Seconds for one collective or pair; a hang is reported after this time."""
