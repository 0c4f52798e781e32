"""The worker's orders: the fields and defaults of `protocol`, read without msgspec."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Dict, List, Optional, Tuple, Type, TypeVar

Raw = Dict[str, Any]
"""A JSON object."""
Order = TypeVar("Order")


@dataclass(frozen=True)
class SlotFields:
    """The fields of `protocol.NodeSlot`."""

    rank: int
    local: int
    gpu: Optional[str] = None
    gpu_index: Optional[int] = None


@dataclass(frozen=True)
class PrepareFields:
    """An order to prepare: the fields and defaults of `protocol.Prepare`, readable without msgspec."""

    backend: str
    world_size: int
    store_address: str
    store_port: int
    slots: List[Raw] = field(default_factory=list)
    store_here: bool = False
    iface: Optional[str] = None
    timeout_s: float = 30.0
    join_s: float = 30.0
    pairs_only: bool = False
    secret: str = ""

    def places(self) -> List[SlotFields]:
        """Return the ranks of this node."""
        return [read(SlotFields, raw) for raw in self.slots]


@dataclass(frozen=True)
class StepFields:
    """The fields of `protocol.Step`."""

    id: int
    what: str
    collective: Optional[str] = None
    pairs: List[Tuple[int, int]] = field(default_factory=list)
    ranks: List[int] = field(default_factory=list)
    bytes: int = 0
    warmup: int = 1
    iterations: int = 5
    check: bool = False
    timeout_s: float = 30.0


def read(kind: Type[Order], raw: Raw) -> Order:
    """Return an order made from its JSON object; unknown keys of a later version are ignored.

    Raises:
        TypeError: a field without a default is missing.
    """
    known = [each.name for each in fields(kind)]  # type: ignore[arg-type]  # every kind is a dataclass
    return kind(**{name: raw[name] for name in known if name in raw})


def part_of(rank: int, raw: Raw) -> Optional[Raw]:
    """Return the part of an order for one rank, only with its own pair; None if it does not take part."""
    if raw.get("do") != "step":
        return raw
    if raw.get("what") in ("bandwidth", "latency"):
        own = [pair for pair in raw.get("pairs", []) if rank in pair]
        return dict(raw, pairs=own[:1]) if own else None
    ranks = raw.get("ranks")
    return None if ranks and rank not in ranks else raw
