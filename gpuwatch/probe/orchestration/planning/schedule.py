"""Schedules pairs in rounds, so that no rank is in two pairs of a round. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import zip_longest
from typing import TypeAlias

from msgspec import Struct

from gpuwatch.probe.results import LinkClass, RankSlot

Pair: TypeAlias = tuple[int, int]
Unit: TypeAlias = int | str
"""The unit of quick mode: ranks within one node, else nodes."""

FULL_RANK_ROUNDS = 64
"""All pairs of ranks are measured if that takes at most this many rounds; else nodes are paired by rails."""


class PairRound(Struct, frozen=True):
    """Pairs that are measured at the same time, first in one direction, then in the other."""

    link: LinkClass
    pairs: tuple[Pair, ...]


def circle(count: int) -> list[list[Pair]]:
    """Return the rounds of a round-robin tournament of 0..count-1 by the circle method: every pair once.

    There are count-1 rounds (count, if odd). The first of a pair alternates with the rounds.
    """
    if count < 2:
        return []
    players: list[int | None] = list(range(count))
    if count % 2:
        players.append(None)
    size = len(players)
    rounds = []
    for turn in range(size - 1):
        pairs = []
        for at in range(size // 2):
            one, other = players[at], players[size - 1 - at]
            if one is not None and other is not None:
                pairs.append((one, other) if turn % 2 else (other, one))
        rounds.append(pairs)
        players.insert(1, players.pop())
    return rounds


def link_class(one: RankSlot, other: RankSlot) -> LinkClass:
    """Return the class of a link; only links of one class are compared."""
    if one.node == other.node:
        return "same_node"
    return "same_rail" if one.local == other.local else "cross_rail"


def full_rounds(slots: Sequence[RankSlot]) -> list[PairRound]:
    """Return rounds within all nodes at once, then between nodes: by rail, and across rails as time allows.

    Up to `FULL_RANK_ROUNDS` rounds between nodes every pair of ranks is measured; else every pair of nodes
    over all rails, and every distance of rails between one set of neighbours.
    """
    by_node = ranks_by_node(slots)
    nodes = list(by_node)
    rails = max((len(ranks) for ranks in by_node.values()), default=0)
    tournament = [[(nodes[a], nodes[b]) for a, b in pairs] for pairs in circle(len(nodes))]
    rounds = _inside(by_node)
    rounds += [_between(by_node, pairs, 0) for pairs in tournament]
    shifts = range(1, rails)
    if len(tournament) * rails <= FULL_RANK_ROUNDS:
        rounds += [_between(by_node, pairs, shift) for shift in shifts for pairs in tournament]
    elif tournament:
        rounds += [_between(by_node, tournament[shift % len(tournament)], shift) for shift in shifts]
    return [each for each in rounds if each.pairs]


def neighbour_round(slots: Sequence[RankSlot]) -> PairRound:
    """Return the first of two rounds: each node with its neighbour over all rails.

    On a single node, each rank with its neighbour. The last of an odd number has none.
    """
    by_node = ranks_by_node(slots)
    nodes = list(by_node)
    if len(nodes) == 1:
        ranks = by_node[nodes[0]]
        return PairRound("same_node", tuple(zip(ranks[::2], ranks[1::2], strict=False)))
    return _between(by_node, _neighbours(nodes), 0)


def crossed_round(slots: Sequence[RankSlot], rates: Mapping[Pair, float | None]) -> PairRound:
    """Return the second round: the fastest units (nodes, or ranks of one node) with the slowest.

    A unit without a partner in the first round counts as slowest. A unit that was slow with both partners is
    slow itself; this finds nodes, never a single link.
    """
    by_node = ranks_by_node(slots)
    one_node = len(by_node) == 1
    units: dict[Unit, list[float]] = {
        unit: [] for unit in (next(iter(by_node.values()), []) if one_node else by_node)
    }
    where = {slot.rank: slot.rank if one_node else slot.node for slot in slots}
    for (src, dst), rate in rates.items():
        for rank in (src, dst):
            units[where[rank]].append(rate or 0.0)
    order = sorted(units, key=lambda unit: min(units[unit], default=-1.0))
    met = {frozenset((where[src], where[dst])) for src, dst in rates}
    pairs = _fast_with_slow(order, met)
    if one_node:
        ranks = [(a, b) for a, b in pairs if isinstance(a, int) and isinstance(b, int)]
        return PairRound("same_node", tuple(ranks))
    return _between(by_node, [(str(a), str(b)) for a, b in pairs], 0)


def ranks_by_node(slots: Sequence[RankSlot]) -> dict[str, list[int]]:
    """Return node -> its ranks, in order."""
    found: dict[str, list[int]] = {}
    for slot in slots:
        found.setdefault(slot.node, []).append(slot.rank)
    return found


def _fast_with_slow(order: Sequence[Unit], met: set[frozenset[Unit]]) -> list[tuple[Unit, Unit]]:
    """Return pairs of a slow and a fast unit, from both ends of the order inwards.

    A pair that met in the first round is avoided if possible.
    """
    left = list(order)
    pairs = []
    while len(left) > 1:
        slow = left.pop(0)
        fresh = [unit for unit in left if frozenset((slow, unit)) not in met]
        fast = (fresh or left)[-1]
        left.remove(fast)
        pairs.append((slow, fast))
    return pairs


def _neighbours(nodes: Sequence[str]) -> list[tuple[str, str]]:
    return list(zip(nodes[::2], nodes[1::2], strict=False))


def _inside(by_node: Mapping[str, Sequence[int]]) -> list[PairRound]:
    """Return rounds in which every node runs its own tournament.

    The rounds of all nodes run at the same time.
    """
    tournaments = [
        [[(ranks[a], ranks[b]) for a, b in pairs] for pairs in circle(len(ranks))]
        for ranks in by_node.values()
    ]
    return [
        PairRound("same_node", tuple(pair for pairs in side_by_side for pair in pairs))
        for side_by_side in zip_longest(*tournaments, fillvalue=())
    ]


def _between(by_node: Mapping[str, Sequence[int]], nodes: Sequence[tuple[str, str]], shift: int) -> PairRound:
    """Return pairs of rank i of one node with rank i + shift of the other, modulo the smaller rank count.

    Two nodes have no pairs if that count is not above `shift`.
    """
    pairs = []
    for one, other in nodes:
        mine, theirs = by_node[one], by_node[other]
        count = min(len(mine), len(theirs))
        if shift < count:
            pairs += [(mine[at], theirs[(at + shift) % count]) for at in range(count)]
    return PairRound("cross_rail" if shift else "same_rail", tuple(pairs))
