"""Finds the components that explain the bad links: the one that explains most of them first, then the next.

A node, a NIC or a direction is the culprit if at least 75 % of its links are bad, to at least two neighbours.
Links that no such component explains are attributed to the connection of their two ends (`pair_faults.py`).

Example: n1 to n4 with one rank each have 12 directed links. If all 6 links of n3 are bad, n3 is the culprit:
6 of 6 are bad, but only 2 of 6 at every other node. If only the 3 links out of n3 are bad, the culprit is
`n3 egress`: 3 of 6 links of n3 are too few, but 3 of 3 in this direction are enough. If only n3 -> n1 is bad,
no component qualifies, and the pair is the culprit.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from msgspec import Struct

from gpuwatch.probe.judging.links.links import MeasuredLink
from gpuwatch.probe.results import RankSlot

Scope: TypeAlias = Literal["rail", "node", "slot", "nic", "gpu", "groups", "nodes", "ranks"]
Direction: TypeAlias = Literal["both", "out", "in"]

MIN_BAD_SHARE = 0.75
"""Fraction of a component's links that must be bad before it is the culprit."""
MIN_NEIGHBOURS = 2
"""Minimum number of neighbours of a culprit: with one, either end of the bad link may be at fault."""
BREADTH: tuple[Scope, ...] = ("rail", "node", "slot", "nic", "gpu")
"""Scopes from broad to narrow: of components that explain equally many links the broadest is the culprit."""


class Component(NamedTuple):
    """A component that links go through: node, GPU, NIC, rail, or the connection of two ends."""

    scope: Scope
    where: tuple[str, ...]
    """The names that identify the component, by its scope.

    They are: the rail; the node; node and NIC; node and slot; or the two groups, nodes or ranks. For a slot,
    scope `slot` is all its links, `gpu` those within its node.
    """
    way: Direction = "both"
    """The direction of the links, seen from the node, NIC or GPU; for two ends, `out` is first to second."""


class Attribution(Struct, frozen=True):
    """A component and the bad links that it explains."""

    part: Component
    links: tuple[MeasuredLink, ...]
    """All links that go through it, bad or not."""
    bad: tuple[MeasuredLink, ...]


class FaultAttribution:
    """Attributes bad links: `attributions` in the order found; `left`: the links, bad or not, of none.

    `congested` are links that are slow only under load: most links of their component were fine when retested
    alone.
    """

    def __init__(self, links: Sequence[MeasuredLink], fails: Callable[[MeasuredLink], bool]) -> None:
        self.attributions: list[Attribution] = []
        self.congested: list[MeasuredLink] = []
        self.left: dict[MeasuredLink, None] = dict.fromkeys(links)
        self._failing = dict.fromkeys(link for link in links if fails(link))
        if not self._failing:
            return
        self._nics = _nodes_with_nics(links)
        inside, outside = (
            {slot for link in part for slot in (link.src.rank, link.dst.rank)} for part in _apart(links)
        )
        self._slots = inside & outside
        self._known: dict[tuple[str, int, Direction, bool], tuple[Component, ...]] = {}
        self._bad = Counter(part for link in self._failing for part in self._parts(link))
        self._through: defaultdict[Component, list[MeasuredLink]] = defaultdict(list)
        for link in links:
            for part in self._parts(link):
                if part in self._bad:
                    self._through[part].append(link)
        self._all = Counter({part: len(through) for part, through in self._through.items()})
        for link in links:
            if not self._counts(link):
                self._all.subtract(part for part in self._parts(link) if part in self._all)
        while found := self._best():
            self._take(found)

    def _counts(self, link: MeasuredLink) -> bool:
        """Return False for links that were bad under load and are fine alone; they are ignored."""
        return link in self._failing or not link.retested

    def _parts(self, link: MeasuredLink) -> tuple[Component, ...]:
        inside = link.link == "same_node"
        parts = self._of(link.src, "out", inside) + self._of(link.dst, "in", inside)
        if link.link == "same_rail" and link.src.node in self._nics:
            return (*parts, Component("rail", (nic(link.src),)))
        return parts

    def _of(self, slot: RankSlot, way: Direction, inside: bool) -> tuple[Component, ...]:
        """Return the components of a link at one of its ends (`slot`).

        `way`: out of or into the slot. `inside`: both ends are on one node.
        """
        key = (slot.node, slot.rank, way, inside)
        if key not in self._known:
            here = (slot.node, label(slot))
            places: list[tuple[Scope, tuple[str, ...]]] = [
                ("gpu", here) if inside else ("node", (slot.node,))
            ]
            if not inside and slot.node in self._nics:
                places.append(("nic", (slot.node, nic(slot))))
            if slot.rank in self._slots:
                places.append(("slot", here))
            self._known[key] = tuple(Component(*place, side) for place in places for side in ("both", way))
        return self._known[key]

    def _best(self) -> list[Component]:
        """Return the components that explain the largest number of remaining bad links.

        Empty if none qualifies. On a tie those of the broadest scope (`BREADTH`) are returned, and `both`
        ways before one.
        """
        able = [part for part, bad in self._bad.items() if bad >= MIN_NEIGHBOURS and self._qualifies(part)]
        best = max(map(self._value, able), default=None)
        return [part for part in able if self._value(part) == best]

    def _value(self, part: Component) -> tuple[int, int, bool]:
        return self._bad[part], -BREADTH.index(part.scope), part.way == "both"

    def _qualifies(self, part: Component) -> bool:
        if not self._mostly(part):
            return False
        if part.way == "both" and part.scope != "rail":
            sides = (part._replace(way="out"), part._replace(way="in"))
            if not all(map(self._mostly, sides)):
                return False
        left = [link for link in self._through[part] if link in self.left]
        if part.scope == "slot" and not all(self._failing.keys() & set(each) for each in _apart(left)):
            return False
        return len(_others(part, left)) >= MIN_NEIGHBOURS + (part.scope == "rail")

    def _mostly(self, part: Component) -> bool:
        return self._bad[part] > 0 and self._bad[part] >= MIN_BAD_SHARE * self._all[part]

    def _take(self, found: Iterable[Component]) -> None:
        gone: dict[MeasuredLink, None] = {}
        for part in found:
            through = self._through[part]
            bad = [link for link in through if link in self._failing]
            alone = [link in self._failing for link in through if link.retested]
            if sum(alone) * 2 < len(alone):
                self.congested += [link for link in bad if link in self.left and not link.retested]
            else:
                self.attributions.append(Attribution(part, tuple(through), tuple(bad)))
            gone.update((link, None) for link in through if link in self.left)
        for link in gone:
            del self.left[link]
            for part in self._parts(link):
                if part in self._all:
                    self._all[part] -= self._counts(link)
                    self._bad[part] -= link in self._failing


def _others(part: Component, links: Iterable[MeasuredLink]) -> set[str]:
    """Return the neighbours that the links lead to.

    These are other nodes; within a node other ranks; for a rail all its nodes.
    """
    ends = [slot for link in links for slot in (link.src, link.dst)]
    if part.scope in {"gpu", "slot"}:
        return {f"{slot.node} {label(slot)}" for slot in ends} - {" ".join(part.where)}
    nodes = {slot.node for slot in ends}
    return nodes if part.scope == "rail" else nodes - {part.where[0]}


def _apart(links: Sequence[MeasuredLink]) -> tuple[list[MeasuredLink], list[MeasuredLink]]:
    """Return (links within nodes, links between nodes)."""
    inside = [link for link in links if link.link == "same_node"]
    return inside, [link for link in links if link.link != "same_node"]


def _nodes_with_nics(links: Iterable[MeasuredLink]) -> set[str]:
    """Return the nodes whose traffic to others uses several NICs; only for these a culprit may be a NIC."""
    nics: defaultdict[str, set[str]] = defaultdict(set)
    for slot in _outward(links):
        nics[slot.node].add(nic(slot))
    return {node for node, names in nics.items() if len(names) > 1}


def _outward(links: Iterable[MeasuredLink]) -> Iterator[RankSlot]:
    for link in links:
        if link.link != "same_node":
            yield link.src
            yield link.dst


def nic(slot: RankSlot) -> str:
    """Return the NIC of a slot's traffic; if unknown, every GPU is assumed to have its own; CPU ranks: ""."""
    if slot.nic is not None:
        return slot.nic
    return "" if slot.gpu is None else f"NIC of GPU {slot.gpu}"


def label(slot: RankSlot) -> str:
    """Return a slot's name on its node: `GPU 4`, `rank 12`."""
    return f"rank {slot.rank}" if slot.gpu is None else f"GPU {slot.gpu}"
