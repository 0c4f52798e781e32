"""Attributes bad links that no node, NIC or direction explains to the connection of their two ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from itertools import combinations

from gpuwatch.hosts.names import fold
from gpuwatch.probe.judging.links.attribution import MIN_BAD_SHARE, Attribution, Component, label
from gpuwatch.probe.judging.links.links import MeasuredLink


def between(links: Collection[MeasuredLink], bad: Sequence[MeasuredLink]) -> list[Attribution]:
    """Return an attribution for any two groups of nodes that are slow to each other, else for each pair.

    Pairs of ranks on one node are added in both cases.

    Args:
        links: The links that no component explains.
        bad: Those of them that are bad or dead.
    """
    failing = dict.fromkeys(bad)
    outside = [link for link in links if link.link != "same_node"]
    grouped = _groups(outside, failing)
    ends = {_nodes(link) for link in bad if not grouped or link.link == "same_node"}
    through: defaultdict[frozenset[str], list[MeasuredLink]] = defaultdict(list)
    for link in links if ends else ():
        if _nodes(link) in ends:
            through[_nodes(link)].append(link)
    found = grouped
    for pair, each in through.items():
        found += _two_nodes(each, failing) if len(pair) == 2 else _two_ranks(each, failing)
    return found


def _groups(outside: Sequence[MeasuredLink], failing: Collection[MeasuredLink]) -> list[Attribution]:
    """Return the attribution for groups of nodes whose links are fine within and bad between them.

    Empty if there are no such groups.
    """
    bad_pairs = {_nodes(link) for link in outside if link in failing}
    if len(bad_pairs) < 2:
        return []
    group = {slot.node: {slot.node} for link in outside for slot in (link.src, link.dst)}
    for pair in {_nodes(link) for link in outside} - bad_pairs:
        one, other = (group[node] for node in pair)
        if one is not other:
            one |= other
            group.update(dict.fromkeys(other, one))
    groups = list({id(each): each for each in group.values()}.values())
    if min(map(len, groups)) < 2 or len(groups) < 2:
        return []
    if any(group[one] is group[other] for one, other in bad_pairs):
        return []  # a bad link inside of a group is a fault of its own
    found = []
    for one, other in combinations(groups, 2):
        across = tuple(link for link in outside if _crosses(link, one, other))
        bad = tuple(link for link in across if link in failing)
        if len(bad) < MIN_BAD_SHARE * len(across):
            return []
        if bad:
            found.append(
                Attribution(Component("groups", tuple(sorted((fold(one), fold(other))))), across, bad)
            )
    return found


def _crosses(link: MeasuredLink, one: Collection[str], other: Collection[str]) -> bool:
    src, dst = link.src.node, link.dst.node
    return (src in one and dst in other) or (src in other and dst in one)


def _two_nodes(through: Sequence[MeasuredLink], failing: Collection[MeasuredLink]) -> Iterator[Attribution]:
    """Yield the attribution to both directions between two nodes, or to one of them.

    If only some of several NICs' links are bad, these are attributed separately.
    """
    ways: defaultdict[tuple[str, str], list[MeasuredLink]] = defaultdict(list)
    for link in through:
        ways[link.src.node, link.dst.node].append(link)
    bad = {way: [link for link in each if link in failing] for way, each in ways.items()}
    slow = [way for way, each in bad.items() if each]
    if any(len(bad[way]) < MIN_BAD_SHARE * len(ways[way]) for way in slow):
        yield from _two_ranks(through, failing)
    elif len(slow) == 2:
        part = Component("nodes", tuple(sorted(slow[0])))
        yield Attribution(part, tuple(through), (*bad[slow[0]], *bad[slow[1]]))
    else:
        yield Attribution(Component("nodes", slow[0], "out"), tuple(ways[slow[0]]), tuple(bad[slow[0]]))


def _two_ranks(through: Sequence[MeasuredLink], failing: Collection[MeasuredLink]) -> Iterator[Attribution]:
    pairs: defaultdict[frozenset[int], list[MeasuredLink]] = defaultdict(list)
    for link in through:
        pairs[frozenset(link.key)].append(link)
    for links in pairs.values():
        bad = tuple(link for link in links if link in failing)
        if not bad:
            continue
        names = tuple(f"{slot.node} {label(slot)}" for slot in (bad[0].src, bad[0].dst))
        if len(bad) == 2:
            yield Attribution(Component("ranks", tuple(sorted(names))), tuple(links), bad)
        else:
            yield Attribution(Component("ranks", names, "out"), bad, bad)


def _nodes(link: MeasuredLink) -> frozenset[str]:
    return frozenset((link.src.node, link.dst.node))
