"""The types of one rank's flight recorder: its collectives, by group, in order."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct

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
"""Collectives in which sizes may differ between members or are not recorded."""
DEFAULT_GROUP = "default_pg"
"""Torch's name for the group of all ranks."""
Signature: TypeAlias = tuple[str, int | None, int | None, tuple[str, ...]]
"""What an entry's counterparts on other ranks must share: name, input and output elements, types.

None: may differ.
"""


class Op(Struct, frozen=True):
    """One entry of the recorder: a collective, or one side of a send."""

    group: str
    seq: int
    """The group's collective counter, from 1; p2p entries carry that of the preceding collective."""
    p2p_seq: int
    name: str
    """`all_reduce`, `send 0->1`, `coalesced`; without the backend."""
    inputs: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    dtypes: tuple[tuple[str, ...], tuple[str, ...]]
    """Types of the inputs and of the outputs."""
    state: State
    retired: bool
    created_s: float | None
    """When the rank entered the collective, unix seconds on the node's clock."""
    timeout_s: float | None
    p2p: bool
    pg_id: int | None
    frame: str | None
    """`train_step (train.py:42)`: the innermost frame of the user's code."""
    signature: Signature


class GroupInfo(Struct, frozen=True):
    """A process group as listed in one rank's dump."""

    name: str
    desc: str
    ranks: tuple[int, ...]
    """Global ranks in the group's own order."""


class GroupHistory(Struct, frozen=True):
    """One rank's collectives in one group."""

    collectives: Mapping[int, Op]
    """`Op.seq` -> collective; the parts of a coalesced collective are merged."""
    last: int
    """`seq` of the last collective that the rank entered; 0: none."""
    open: int | None
    """`seq` of the first collective that is not completed in this dump; None: none, or states are unknown."""
    has_states: bool
    """True if the backend records states; gloo leaves every entry `scheduled`, even completed ones."""
    p2p: tuple[Op, ...]
    """Uncompleted sends and receives, in order."""


class RankDump(Struct, frozen=True):
    """The flight-recorder dump of one rank."""

    rank: int
    file: str
    version: str
    backend: str
    histories: Mapping[str, GroupHistory]
    """Group name -> history."""
    groups: Mapping[str, GroupInfo]
    enqueued: Mapping[int, int]
    """Group number (`Op.pg_id`) -> `seq` of the last enqueued collective."""
    wrapped: bool
    """True if earlier entries are missing: overwritten, or left out because they had completed."""
    count: int
    """Number of entries."""
    newest: Op | None
    """The newest entry of the rank."""
    world: tuple[int, ...]
    """All ranks of the job, from backends whose dumps list them instead of groups (gloo)."""


def signature(
    name: str, inputs: Iterable[Iterable[int]], outputs: Iterable[Iterable[int]], types: tuple[str, ...]
) -> Signature:
    """Return the key by which an entry is compared with those of other ranks.

    It counts elements instead of shapes, as NCCL and gloo do. None stands for a side that may legitimately
    differ: both of `ROOT_OR_SHARES` (then without data types), inputs of all_gather, outputs of
    reduce_scatter.
    """
    if name in ROOT_OR_SHARES:
        return name, None, None, ()
    ins = None if name == "all_gather" else elements(inputs)
    outs = None if name == "reduce_scatter" else elements(outputs)
    return name, ins, outs, types


def elements(sizes: Iterable[Iterable[int]]) -> int:
    """Return the total number of elements of tensors with these shapes."""
    return sum(math.prod(size) for size in sizes)
