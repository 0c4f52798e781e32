"""Assesses all links: which components explain the bad ones, and which links stay unexplained."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from msgspec import Struct

from gpuwatch.probe.judging.links.attribution import Attribution, FaultAttribution
from gpuwatch.probe.judging.links.links import BAD_RATIO, NOISY_SPREAD, MeasuredLink, graded
from gpuwatch.probe.judging.links.pair_faults import between
from gpuwatch.probe.results import LinkClass, Results

MAX_BAD_SHARE = 0.9
"""If a larger fraction of a class is bad, no single component is at fault."""
ENOUGH_NODES = 3


class LinkAssessment(Struct, frozen=True):
    """The assessment of a probe's links."""

    links: tuple[MeasuredLink, ...]
    attributions: tuple[Attribution, ...]
    """Components that explain the bad and dead links, the largest number first."""
    low: tuple[Attribution, ...]
    """Components that explain links between `BAD_RATIO` and `OK_RATIO`; no culprits yet."""
    noisy: tuple[MeasuredLink, ...]
    """Links that would be graded bad if their repeats varied less."""
    congested: tuple[MeasuredLink, ...]
    """Links that are slow only under load; similar links were fine alone."""
    inside: tuple[Attribution, ...]
    """Pairs of GPUs of one node that are slow in both directions, which the node's layout may explain."""
    all_bad: Mapping[LinkClass, tuple[MeasuredLink, ...]]
    """Link classes in which nearly all links are bad.

    They are bad compared with a baseline, or because nothing gets through.
    """
    fast_outliers: Mapping[LinkClass, tuple[MeasuredLink, ...]]
    """The few links that are so fast that all others would be bad in comparison."""

    @property
    def by_ends(self) -> dict[tuple[int, int], MeasuredLink]:
        """All links by (source, destination)."""
        return {link.key: link for link in self.links}


def make_case(results: Results, floors: Mapping[LinkClass, float] | None = None) -> LinkAssessment:
    """Return the assessment: the links graded, and the bad ones attributed.

    Args:
        results: The measurements.
        floors: Class -> minimum of its reference (GB/s), from a baseline.
    """
    links = [link for link in graded(results, floors) if not _of_the_gone(link, results)]
    all_bad = _all_bad(links)
    judged = [link for link in links if link.link not in all_bad]
    faults = FaultAttribution(judged, lambda link: link.fails)
    left = [link for link in faults.left if link.fails]
    attributions = [*faults.attributions, *between(faults.left, left)]
    many_nodes = len({link.src.node for link in links if link.link == "same_node"}) >= ENOUGH_NODES
    inside = [] if many_nodes else [attribution for attribution in attributions if _maybe_layout(attribution)]
    return LinkAssessment(
        links=tuple(links),
        attributions=tuple(
            sorted((attribution for attribution in attributions if attribution not in inside), key=_order)
        ),
        low=tuple(_low(judged)),
        noisy=tuple(link for link in judged if _doubtful(link)),
        congested=tuple(faults.congested),
        inside=tuple(inside),
        all_bad=all_bad,
        fast_outliers=_fast_outliers(links),
    )


def _doubtful(link: MeasuredLink) -> bool:
    return link.grade == "noisy" and (link.ratio or 0.0) < BAD_RATIO and not link.shares_cores


def _of_the_gone(link: MeasuredLink, results: Results) -> bool:
    """Return True if a link failed because a rank at its end had stopped taking part.

    The loss of the rank is reported separately.
    """
    out = {each.node for each in results.nodes if each.problem is not None}
    ends = (link.src, link.dst)
    return link.grade == "dead" and any(slot.rank in results.gone or slot.node in out for slot in ends)


def _all_bad(links: list[MeasuredLink]) -> dict[LinkClass, tuple[MeasuredLink, ...]]:
    classes: defaultdict[LinkClass, list[MeasuredLink]] = defaultdict(list)
    for link in links:
        classes[link.link].append(link)
    found = {}
    for name, each in classes.items():
        bad = tuple(link for link in each if link.fails)
        nodes = {slot.node for link in each for slot in (link.src, link.dst)}
        slow_pair = all(link.grade == "bad" for link in bad)  # a dead pair of two nodes has a name
        if bad and len(bad) >= MAX_BAD_SHARE * len(each) and (len(nodes) >= ENOUGH_NODES or slow_pair):
            found[name] = bad
    return found


def _low(links: list[MeasuredLink]) -> list[Attribution]:
    judged = [link for link in links if not link.fails and not link.shares_cores]
    faults = FaultAttribution(judged, lambda link: link.grade == "low")
    return [
        *faults.attributions,
        *between(faults.left, [link for link in faults.left if link.grade == "low"]),
    ]


def _maybe_layout(attribution: Attribution) -> bool:
    """Return True for two GPUs of a node that are slow to each other in both directions.

    On different switches or sockets that is normal.
    """
    return (
        attribution.part.scope == "ranks"
        and attribution.part.way == "both"
        and all(link.link == "same_node" and link.grade == "bad" for link in attribution.bad)
    )


def _fast_outliers(links: list[MeasuredLink]) -> dict[LinkClass, tuple[MeasuredLink, ...]]:
    classes: defaultdict[LinkClass, list[MeasuredLink]] = defaultdict(list)
    for link in links:
        if (
            link.link != "same_node"
            and (link.ratio or 0.0) * BAD_RATIO > 1.0
            and (link.spread or 0.0) <= NOISY_SPREAD
        ):
            classes[link.link].append(link)
    return {name: tuple(fast) for name, fast in classes.items()}


def _order(attribution: Attribution) -> tuple[int, float, tuple[str, ...]]:
    ratios = [link.ratio or 0.0 for link in attribution.bad]
    return -len(attribution.bad), sum(ratios) / len(ratios), attribution.part.where
