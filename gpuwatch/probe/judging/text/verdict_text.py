"""Makes the text of an attribution: the culprit's name, the sentence and its evidence with numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median_low

from msgspec import Struct

from gpuwatch.number_text import percent, rate_of, some
from gpuwatch.probe.judging.links.attribution import Attribution, Component
from gpuwatch.probe.judging.links.links import MeasuredLink
from gpuwatch.probe.verdict import Culprit, CulpritKind

TWO_ENDS = frozenset(("groups", "nodes", "ranks"))
KINDS: dict[str, CulpritKind] = {"node": "node", "slot": "gpu", "nic": "nic", "gpu": "gpu"}
LOOK_AT = {
    "rail": "the switch of that rail, not the nodes",
    "node": "its NIC, cable and PCIe",
    "nic": "its port, cable and PCIe",
    "slot": "the GPU, its process and its PCIe",
    "gpu": "its NVLink and PCIe",
    "groups": "what joins the two groups: the uplinks and the spine",
    "nodes": "the switch ports and the route between the two",
    "ranks": "what lies between the two",
}
WAYS = {"both": "of", "out": "out of", "in": "into"}
DEAD = "check firewall, route and interface"


class NamedCulprit(Struct, frozen=True):
    """A culprit, and the sentence about it that begins the verdict."""

    culprit: Culprit
    sentence: str


def reported(attribution: Attribution, links: Mapping[tuple[int, int], MeasuredLink]) -> NamedCulprit:
    """Return the culprit of an attribution, with the sentence.

    Args:
        attribution: A component and its links.
        links: All links by source and destination, for the opposite direction.
    """
    part, ratio = attribution.part, ratio_of(attribution.bad)
    kind, name = named(part)
    back = _other_way(attribution, links)
    evidence = (*numbers(attribution), *([back] if back else []), *_retests(attribution))
    subject = f"{kind} {name}" if kind in {"node", "link"} else name
    if ratio is None:
        why = _why(attribution.bad) or f"; {DEAD}"
        sentence = f"no data gets through {subject}: {_count(attribution)} failed{why}"
    else:
        sentence = (
            f"{subject} is slow: {_reach(attribution, ratio, back, len(links))}; check {LOOK_AT[part.scope]}"
        )
    state = "dead" if ratio is None else ""
    return NamedCulprit(Culprit(kind, name, ratio, evidence, state), sentence)


def _reach(attribution: Attribution, ratio: float, back: str, every: int) -> str:
    """Return the clause about the rate of bad links: `2 of its 7 links reach 40 % of their peers' rate`.

    If there are only two links, one per direction, the bad one is compared with the other direction.

    Args:
        attribution: The attribution, with its bad links.
        ratio: Their rate divided by that of their peers.
        back: A clause about the opposite direction; "" for none.
        every: The number of all links.
    """
    if len(attribution.bad) == 1 and every == 2:
        return (
            f"it reaches {percent(ratio)} of the rate of the other direction (no other link to compare with)"
        )
    verb, peers = ("reaches", "its") if len(attribution.bad) == 1 else ("reach", "their")
    return (
        f"{_count(attribution)} {verb} {percent(ratio)} of {peers} peers' rate{f', {back}' if back else ''}"
    )


def named(part: Component) -> tuple[CulpritKind, str]:
    """Return the kind and name of a component, as in `Culprit`."""
    joined = " ".join(part.where)
    if part.scope in TWO_ENDS:
        return "link", f" {'->' if part.way == 'out' else '<->'} ".join(part.where)
    if part.way != "both":
        return "direction", f"{joined} {'egress' if part.way == 'out' else 'ingress'}"
    if part.scope == "rail":
        return "nic", f"rail {joined.removeprefix('NIC ')}"
    if part.scope in {"slot", "gpu"} and part.where[1].startswith("rank"):
        return "node", joined  # a CPU rank
    return KINDS[part.scope], joined


def ratio_of(bad: Iterable[MeasuredLink]) -> float | None:
    """Return the median ratio of the links to their reference; None if at least half let nothing through."""
    every = list(bad)
    ratios = [link.ratio for link in every if link.ratio is not None]
    return median_low(ratios) if len(ratios) * 2 > len(every) else None


def _count(attribution: Attribution) -> str:
    """Return the number of bad links as text: `all 14 of its links`, `6 of 7 links out of h3`."""
    part, bad, every = attribution.part, len(attribution.bad), len(attribution.links)
    if part.scope in TWO_ENDS:
        return {1: "it", 2: "both directions"}.get(every, some(bad, every, "link"))
    if part.way != "both":
        return f"{some(bad, every, 'link')} {WAYS[part.way]} {' '.join(part.where)}"
    return f"all {every} of its links" if bad == every else f"{bad} of its {every} links"


def numbers(attribution: Attribution) -> list[str]:
    """Return sentences about the slow and the dead links of a component, the more frequent first."""
    place, every = _through(attribution.part), len(attribution.links)
    slow = sorted(
        (link for link in attribution.bad if link.ratio is not None), key=lambda link: link.ratio or 0.0
    )
    dead = [link for link in attribution.bad if link.grade == "dead"]
    message = []
    if slow:
        middle = slow[(len(slow) - 1) // 2]
        number = rate_of(middle.rate or 0.0, middle.reference or 0.0)
        peers = "its peers'" if len(slow) == 1 else "their peers'"
        links = some(len(slow), every, "link")
        message.append(f"{links} {place} at {percent(middle.ratio or 0.0)} of {peers} ({number})")
    if dead:
        message.append(f"no data got through {some(len(dead), every, 'link')} {place}{_why(dead)}")
    return message if len(slow) >= len(dead) else message[::-1]


def _through(part: Component) -> str:
    if part.scope in TWO_ENDS:
        one, other = part.where
        return f"from {one} to {other}" if part.way == "out" else f"between {one} and {other}"
    return f"{WAYS[part.way]} {named(part._replace(way='both'))[1]}"


def _why(links: Iterable[MeasuredLink]) -> str:
    """Return the most frequent error of the links as text in brackets; "" if none is known."""
    errors = Counter(link.error for link in links if link.error)
    return f" ({errors.most_common(1)[0][0]})" if errors else ""


def _other_way(attribution: Attribution, links: Mapping[tuple[int, int], MeasuredLink]) -> str:
    """Return the state of the opposite direction as text if only one direction is bad; else ""."""
    if attribution.part.way == "both":
        return ""
    back = [links.get((link.dst.rank, link.src.rank)) for link in attribution.bad]
    ratios = [link.ratio for link in back if link is not None and link.ratio is not None]
    return f"the reverse direction {percent(median_low(ratios))}" if ratios else ""


def _retests(attribution: Attribution) -> list[str]:
    again = sum(link.retested for link in attribution.bad)
    if not again:
        return []
    return [f"still bad when measured again alone: {some(again, len(attribution.bad), 'bad link')}"]
