"""Compares every measured link with the best of its class, and grades it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.probe.judging.links.peer_reference import confirmed_best_tenth
from gpuwatch.probe.results import LinkClass, PairResult, RankSlot, Results, slots_by_rank

Grade: TypeAlias = Literal["ok", "low", "bad", "noisy", "dead"]

OK_RATIO = 0.9
"""From this fraction of the reference a link is ok: nccl-tests fails a run below 0.9 of NCCL_TESTS_MIN_BW."""
BAD_RATIO = 0.7
"""Below this fraction of the reference a link is bad: NVRx flags ranks below 0.75 (Lightning: 0.7)."""
NOISY_SPREAD = 0.2
"""If a link's repeats vary by more than this fraction of their median, the median alone proves nothing."""
ENOUGH_NODES = 3
"""From this number of nodes on, a link within a node is compared with the same link of the other nodes."""
NO_RANK = -1
"""The rank that stands for a node without a slot."""

Peers: TypeAlias = tuple[LinkClass, frozenset[int]]
"""The group that a link is compared with: its class, and within many nodes the two local ranks."""


class MeasuredLink(Struct, frozen=True, eq=False):
    """A directed link and its grade. Hashed by identity: a large job has 100,000 of them."""

    src: RankSlot
    dst: RankSlot
    link: LinkClass
    grade: Grade
    ratio: float | None
    """The rate as a fraction of the reference; None if nothing got through."""
    rate: float | None = None
    """10^9 bytes per second, like `reference`."""
    reference: float | None = None
    retested: bool = False
    spread: float | None = None
    error: str | None = None

    @property
    def key(self) -> tuple[int, int]:
        """(source, destination), its key in `Results.pairs`."""
        return self.src.rank, self.dst.rank

    @property
    def shares_cores(self) -> bool:
        """True between two CPU ranks of one machine: no cable can be at fault, only CPU load."""
        return self.link == "same_node" and self.src.device == "cpu"

    @property
    def fails(self) -> bool:
        """True if bad or dead."""
        return self.grade in {"bad", "dead"}


def graded(results: Results, floors: Mapping[LinkClass, float] | None = None) -> list[MeasuredLink]:
    """Return every directed link that was measured, or not because its nodes do not reach each other.

    Args:
        results: The measurements.
        floors: Class -> the minimum of its reference (GB/s), from a baseline.
    """
    slots = slots_by_rank(results)
    pairs = [pair for pair in results.pairs.values() if pair.src in slots and pair.dst in slots]
    inside = _alike_inside(pairs, slots)
    rates: defaultdict[Peers, list[tuple[float, str]]] = defaultdict(list)
    for pair in pairs:
        if pair.ok and pair.bandwidth_gb_per_s is not None:
            measured = (pair.bandwidth_gb_per_s, slots[pair.dst].node)  # the receiver times a link
            rates[_peers(pair, slots, inside)].append(measured)
    floor = floors or {}
    references = {
        peers: max(confirmed_best_tenth(*zip(*each, strict=True)), floor.get(peers[0], 0.0))
        for peers, each in rates.items()
    }
    links = [
        _link(pair, slots[pair.src], slots[pair.dst], references.get(_peers(pair, slots, inside)))
        for pair in pairs
    ]
    return [*links, *_unreached(results)]


def _alike_inside(pairs: Iterable[PairResult], slots: Mapping[int, RankSlot]) -> bool:
    nodes = {slots[pair.src].node for pair in pairs if pair.link == "same_node"}
    return len(nodes) >= ENOUGH_NODES


def _peers(pair: PairResult, slots: Mapping[int, RankSlot], inside: bool) -> Peers:
    if pair.link != "same_node" or not inside:
        return pair.link, frozenset()
    return pair.link, frozenset((slots[pair.src].local, slots[pair.dst].local))


def _link(pair: PairResult, src: RankSlot, dst: RankSlot, reference: float | None) -> MeasuredLink:
    rate = pair.bandwidth_gb_per_s if pair.ok else None
    ratio = rate / reference if rate is not None and reference else None
    grade: Grade = "ok" if pair.ok else "dead"
    if ratio is not None:
        grade = grade_of(ratio, pair.spread)
    link = MeasuredLink(
        src, dst, pair.link, grade, ratio, rate, reference, pair.retested, pair.spread, pair.error
    )
    return replace(link, grade="noisy") if grade == "bad" and link.shares_cores else link


def grade_of(ratio: float, spread: float | None) -> Grade:
    """Return the grade of a ratio to the reference, given the variation of the link's own repeats.

    A link below the limit even at its best repeat is bad however much it varies: that repeat took at least (1
    - spread) of the median time.
    """
    if ratio >= OK_RATIO:
        return "ok"
    if (
        spread is not None
        and spread > NOISY_SPREAD
        and (spread >= 1.0 or ratio / (1.0 - spread) >= BAD_RATIO)
    ):
        return "noisy"
    return "low" if ratio >= BAD_RATIO else "bad"


def _unreached(results: Results) -> list[MeasuredLink]:
    """Return a dead link for every two nodes that could not connect, unless a pair result shows it."""
    first: dict[str, RankSlot] = {}
    for slot in results.slots:
        first.setdefault(slot.node, slot)
    nodes = {slot.rank: slot.node for slot in results.slots}
    measured = {(nodes.get(src), nodes.get(dst)) for src, dst in results.pairs}
    return [
        MeasuredLink(
            first.get(each.src, RankSlot(NO_RANK, each.src, 0)),
            first.get(each.dst, RankSlot(NO_RANK, each.dst, 0)),
            "same_rail",
            "dead",
            None,
            error=each.error,
        )
        for each in results.unreachable
        if (each.src, each.dst) not in measured
    ]
