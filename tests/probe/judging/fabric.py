"""Pair matrices as probes measure them, with faults put in."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence

from msgspec.structs import replace as changed

from gpuwatch.probe.probe_request import ProbeRequest
from gpuwatch.probe.results import LinkClass, PairResult, RankSlot, Results, Unreachable

GOOD = 24.0
Rate = Callable[[RankSlot, RankSlot], float | None]


class Fabric:
    """Nodes with ranks; every pair gets `rate` unless a fault says otherwise. None is a dead link."""

    def __init__(
        self,
        nodes: int | Iterable[str],
        per_node: int = 1,
        rate: float = GOOD,
        *,
        gpus: bool = False,
        jitter: float = 0.0,
        nics: Sequence[str] = (),
    ) -> None:
        names = [f"host-{number}" for number in range(nodes)] if isinstance(nodes, int) else list(nodes)
        self.slots = [
            RankSlot(
                rank=place * per_node + local,
                node=name,
                local=local,
                device="H100" if gpus else "cpu",
                gpu=local if gpus else None,
                nic=nics[local] if nics else f"mlx5_{local}" if gpus else "eth0",
            )
            for place, name in enumerate(names)
            for local in range(per_node)
        ]
        chance = random.Random(4)
        self.pairs: dict[tuple[int, int], PairResult] = {}
        for src in self.slots:
            for dst in self.slots:
                link = link_class(src, dst)
                if link is not None:
                    value = rate * 10 if link == "same_node" else rate
                    self.pairs[src.rank, dst.rank] = PairResult(
                        src.rank,
                        dst.rank,
                        link,
                        ok=True,
                        spread=0.02,
                        bandwidth_gb_per_s=value * (1 - jitter * chance.random()),
                        latency_us=20.0,
                    )
        self.unreachable: list[Unreachable] = []

    def slow(
        self, which: Callable[[RankSlot, RankSlot], bool], to: float = 0.25, spread: float = 0.02
    ) -> Fabric:
        """Links (source, destination) that reach only this part."""
        for (src, dst), pair in self.pairs.items():
            if which(self.slots[src], self.slots[dst]) and pair.bandwidth_gb_per_s is not None:
                self.pairs[src, dst] = changed(
                    pair, bandwidth_gb_per_s=pair.bandwidth_gb_per_s * to, spread=spread
                )
        return self

    def dead(
        self, which: Callable[[RankSlot, RankSlot], bool], error: str = "no answer within 5 s"
    ) -> Fabric:
        """Links (source, destination) that let nothing through."""
        for (src, dst), pair in self.pairs.items():
            if which(self.slots[src], self.slots[dst]):
                self.pairs[src, dst] = changed(
                    pair, ok=False, bandwidth_gb_per_s=None, latency_us=None, spread=None, error=error
                )
        return self

    def results(self) -> Results:
        """As a probe that has ended leaves them."""
        return Results(
            request=ProbeRequest(),
            started=0.0,
            phase="done",
            slots=self.slots,
            pairs=dict(self.pairs),
            backend="gloo",
            unreachable=self.unreachable,
        )


def link_class(src: RankSlot, dst: RankSlot) -> LinkClass | None:
    """What a probe measures: everything inside of nodes, and rail by rail between them."""
    if src.rank == dst.rank:
        return None
    if src.node == dst.node:
        return "same_node"
    return "same_rail" if src.local == dst.local else None


def through(node: str) -> Callable[[RankSlot, RankSlot], bool]:
    """All links of a node to others."""
    return lambda src, dst: src.node != dst.node and node in (src.node, dst.node)


def out_of(node: str) -> Callable[[RankSlot, RankSlot], bool]:
    """Its links to others, one way."""
    return lambda src, dst: src.node == node != dst.node


def into(node: str) -> Callable[[RankSlot, RankSlot], bool]:
    """Others' links to it."""
    return lambda src, dst: dst.node == node != src.node


def one_way(first: str, second: str) -> Callable[[RankSlot, RankSlot], bool]:
    """From the first to the second node."""
    return lambda src, dst: (src.node, dst.node) == (first, second)


def both_ways(first: str, second: str) -> Callable[[RankSlot, RankSlot], bool]:
    """Between two nodes."""
    return lambda src, dst: {src.node, dst.node} == {first, second}
