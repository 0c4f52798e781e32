"""One rank's flight recorder as data: the collectives it joined, by group, in order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

State: TypeAlias = Literal["scheduled", "started", "completed"]
ROOT_OR_SHARES = frozenset(
    (
        "gather",
        "scatter",
        "all_to_all",
        "all_to_all_single",
        "all_to_all_v_single",
        "all_gather_v",
        "reduce_scatter_v",
        "barrier",
        "all_reduce_barrier",
        "split",
    )
)
"""Names of collectives in which the members' sizes may differ, or log nothing."""
DEFAULT_GROUP = "default_pg"
"""What torch calls the group of all ranks, besides its number."""
Signature: TypeAlias = tuple[str, int | None, int | None, tuple[str, ...]]
"""What all members of a group must agree on: name, elements in, elements out, types; None: may differ."""


@dataclass(frozen=True, slots=True)
class Op:
    """One entry: a collective or one half of a send."""

    group: str
    seq: int
    """The group's own count of collectives, from 1; p2p entries carry that of the collective before."""
    p2p_seq: int
    name: str
    """all_reduce, send 0->1, coalesced: without the backend."""
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    dtypes: tuple[tuple[str, ...], tuple[str, ...]]
    """Of the inputs, of the outputs."""
    state: State
    retired: bool
    created_s: float | None
    """Unix seconds on the node's clock: when the rank came to it."""
    timeout_s: float | None
    p2p: bool
    pg_id: int | None
    frame: str | None
    """`train_step (train.py:42)`: the innermost frame of the user's code."""
    signature: Signature


@dataclass(frozen=True, slots=True)
class GroupInfo:
    """A process group, as a rank knows it."""

    name: str
    desc: str
    ranks: tuple[int, ...]
    """Global ranks in the group's own order."""


@dataclass(frozen=True, slots=True)
class GroupHistory:
    """What one rank did in one group."""

    collectives: Mapping[int, Op]
    """By `Op.seq`; the parts of a coalesced one are one."""
    last: int
    """The last collective that it joined; 0: none."""
    open: int | None
    """The first one that has not completed there; None: all have, or the backend reports no states."""
    has_states: bool
    """Gloo leaves every entry `scheduled`, also those that are long done."""
    p2p: tuple[Op, ...]
    """Sends and receives that have not completed, in order."""


@dataclass(frozen=True, slots=True)
class RankDump:
    """One rank's dump."""

    rank: int
    file: str
    version: str
    backend: str
    histories: Mapping[str, GroupHistory]
    """By the group's name."""
    groups: Mapping[str, GroupInfo]
    enqueued: Mapping[int, int]
    """Group number (`Op.pg_id`) -> the last collective that was enqueued."""
    wrapped: bool
    """Entries are missing in front: overwritten, or left out because they had completed."""
    count: int
    """Entries in it."""
    newest: Op | None
    """What the rank came to last."""
    world: tuple[int, ...]
    """All ranks of the job, where a backend without groups in its dump states them all the same (gloo)."""


def signature(
    name: str, inputs: Iterable[Iterable[int]], outputs: Iterable[Iterable[int]], types: tuple[str, ...]
) -> Signature:
    """The key by which an entry is compared with those of the other ranks.

    Elements, not shapes: NCCL and gloo count elements. Where ranks may rightly differ (the root of a gather,
    the shares of an all_to_all or of an all_gather of a list) that side is left out.
    """
    if name in ROOT_OR_SHARES:
        return name, None, None, ()
    ins = None if name == "all_gather" else elements(inputs)
    outs = None if name == "reduce_scatter" else elements(outputs)
    return name, ins, outs, types


def elements(sizes: Iterable[Iterable[int]]) -> int:
    """How many numbers tensors of these sizes hold together."""
    return sum(math.prod(size) for size in sizes)
