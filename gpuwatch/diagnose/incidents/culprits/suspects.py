"""Finds the suspects of a hang if the logs show only victims: the ranks that did not take part."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence

from msgspec import Struct

from gpuwatch.diagnose.model.alert import IDLE_RANKS, LAST_WORDS, Alert, process_group
from gpuwatch.diagnose.model.condition import GRAVE
from gpuwatch.diagnose.model.failure_classes import (
    EXITS,
    LAUNCHER,
    PEER_CONNECTION_ERRORS,
    STOPS_RANKS,
    TIMEOUTS,
    TOOK_PART,
    end_weight,
)
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.diagnose.model.text import HALVES, collective
from gpuwatch.diagnose.model.timing import onset
from gpuwatch.diagnose.model.verdict import Confidence
from gpuwatch.diagnose.sources.absent_ranks import absent_in

EVEN = frozenset(("ALLREDUCE", "ALLGATHER_BASE", "REDUCE_SCATTER_BASE", "BROADCAST", "REDUCE"))
"""Collectives whose input has the same size on all ranks."""
MAX_NAMED_SUSPECTS = 3
"""Most suspects that are named individually."""

ABORT_WEIGHT = 2
"""The `end_weight` of an abort."""


class Hang(Struct, frozen=True):
    """One hang: ranks that timed out, what they report, and ranks that may be the cause.

    Times in unix seconds.
    """

    victims: tuple[int, ...]
    """Ranks that timed out."""
    world: tuple[int, ...]
    """All known ranks of the job."""
    where: str
    """The operation that most victims wait in, such as `ALLREDUCE seq 2381`; may be empty."""
    began: float
    """When the collective that timed out was entered."""
    printed: float
    """When the first rank reported the timeout."""
    silent: tuple[int, ...] = ()
    """Ranks that logged no error while the others timed out."""
    odd: tuple[int, ...] = ()
    """Ranks that were in another operation of the same group, or had nothing pending."""
    odd_where: str = ""
    code: str = ""
    """The class of the timeouts."""
    listed: tuple[int, ...] = ()
    """Ranks that the timeouts' own lines list as missing."""
    whole: bool = False
    """True if `world` is the announced size of the job; False: only known ranks."""
    left_out: tuple[int, ...] = ()
    """The only rank of a node whose process its launcher did not have to stop, or empty."""
    dated: bool = True
    """True if a line bounds `began`."""
    idle: tuple[int, ...] = ()
    """The few ranks whose GPUs were idle while those of all others were busy."""
    words: tuple[int, ...] = ()
    """The only rank that logged other lines than steps after the last step of all ranks, or empty."""

    @property
    def suspects(self) -> tuple[int, ...]:
        """Return the suspects with the strongest evidence; empty: none known."""
        return self.listed or self.left_out or self.idle or self.odd or self.words or self.silent


def hang(alerts: Sequence[Alert], where: RankIndex, job: str | None) -> Hang | None:
    """Return the hang that timeouts report; None without a timeout."""
    timeouts = [alert for alert in alerts if alert in TIMEOUTS]
    if not timeouts:
        return None
    by_group: dict[str, list[Alert]] = defaultdict(list)
    for alert in timeouts:
        by_group[process_group(alert)].append(alert)
    first = min(by_group.values(), key=lambda members: min(onset(each) for each in members))
    spoke = {alert.rank for alert in alerts if alert in TOOK_PART and alert.rank is not None}
    victims = {alert.rank for alert in timeouts if alert.rank is not None}
    world = where.world(job) | spoke | (set(range(max(spoke) + 1)) if spoke else set())
    listed = {rank for rank in absent_in(timeouts) if where.may_be_rank(rank, job)}
    listed = set() if world and listed >= world else listed
    world |= listed
    odd, odd_where = _odd_ones(first)
    odd |= _nothing_pending(alerts, process_group(first[0]))
    spots = [collective(each.fields) for each in first]
    usual = Counter([spot for spot in spots if " " in spot and not spot.startswith("seq")] or spots)
    return Hang(
        tuple(sorted(victims - odd - listed)),
        tuple(sorted(world)),
        usual.most_common(1)[0][0],
        min(onset(each) for each in first),
        min(each.first for each in timeouts),
        tuple(sorted(world - spoke)) if spoke else (),
        tuple(sorted(odd)),
        odd_where,
        Counter(each.code for each in first).most_common(1)[0][0],
        tuple(sorted(listed)),
        where.size(job) > 0 and len(world) <= where.size(job),
        tuple(rank for rank in _left_out(alerts, where, job) if rank not in victims | _aborted(alerts)),
        any(each.timed or each.bound != "undated" for each in first),
        tuple(rank for rank in _idle(first) if rank not in victims),
        tuple(rank for rank in _last_words(first) if rank not in spoke),
    )


def _idle(timeouts: Sequence[Alert]) -> list[int]:
    return sorted({int(rank) for each in timeouts for rank in str(each.fields.get(IDLE_RANKS, "")).split()})


def _last_words(timeouts: Sequence[Alert]) -> set[int]:
    return {rank for each in timeouts if isinstance(rank := each.fields.get(LAST_WORDS), int)}


def _odd_ones(timeouts: Sequence[Alert]) -> tuple[set[int], str]:
    """Return the ranks in another operation than almost all of their group, and that operation.

    An empty set and "" if there are none, or too many.
    """
    for name in ("seq", "op", "numel_in"):
        ranks: dict[object, set[int]] = defaultdict(set)
        for alert in timeouts:
            value = alert.fields.get(name) if name != "numel_in" or _is_even(alert) else None
            if value is not None and alert.rank is not None and value not in HALVES:
                ranks[value].add(alert.rank)
        if len(ranks) < 2:
            continue
        usual = max(ranks, key=lambda value: len(ranks[value]))
        others = {rank for value, each in ranks.items() if value != usual for rank in each} - ranks[usual]
        if (
            others
            and len(others) <= max(MAX_NAMED_SUSPECTS, len(ranks[usual]) // 8)
            and len(others) < len(ranks[usual])
        ):
            spots = [collective(each.fields) for each in timeouts if each.rank in others]
            size = f" with {_elements(timeouts, others)} elements" if name == "numel_in" else ""
            return others, max(spots, key=len) + size
    return set(), ""


def _elements(timeouts: Sequence[Alert], ranks: set[int]) -> str:
    """Return the element counts with which these ranks wait, as text."""
    sizes = {
        str(alert.fields["numel_in"])
        for alert in timeouts
        if alert.rank in ranks and "numel_in" in alert.fields
    }
    return ", ".join(sorted(sizes))


def _is_even(alert: Alert) -> bool:
    """Return True if the alert's collective takes the same number of elements from each rank."""
    return str(alert.fields.get("op", "")).upper().strip("_") in EVEN


def _nothing_pending(alerts: Sequence[Alert], group: str) -> set[int]:
    """Return the ranks of the hung group with `last enqueued == last completed`: they never entered.

    Empty if there are too many of them.
    """
    idle: set[int] = set()
    busy: set[int] = set()
    for alert in alerts:
        enqueued, completed = alert.fields.get("last_enqueued"), alert.fields.get("last_completed")
        if alert.rank is None or enqueued is None or completed is None or process_group(alert) != group:
            continue
        (idle if enqueued == completed and alert not in TIMEOUTS else busy).add(alert.rank)
    return idle if busy and len(idle) <= max(MAX_NAMED_SUSPECTS, len(busy) // 8) else set()


def _left_out(alerts: Sequence[Alert], where: RankIndex, job: str | None) -> tuple[int, ...]:
    """Return the rank that its launcher did not have to stop: no `Sending process N closing signal` names it.

    Empty if this singles out no rank, or several.
    """
    ended: dict[str, set[object]] = defaultdict(set)
    for alert in alerts:
        if alert in STOPS_RANKS and alert.node is not None and "pid" in alert.fields:
            ended[alert.node].add(alert.fields["pid"])
    found = []
    for node, pids in ended.items():
        known = [place for place in where.on(node, job) if place.pid is not None]
        missing = [place.rank for place in known if place.pid not in pids]
        if len(known) > 1 and len(missing) == 1:
            found.append(missing[0])
    return tuple(found) if len(found) == 1 else ()


def _aborted(alerts: Sequence[Alert]) -> set[int | None]:
    """Return the ranks that ended by an abort, as a watchdog ends a rank that waited."""
    return {alert.rank for alert in alerts if alert in EXITS and end_weight(alert) == ABORT_WEIGHT}


def is_milder(alert: Alert, cause: Alert) -> bool:
    """Return True for a warning beside a graver cause: its rank may go on, so it is not a consequence."""
    return alert.severity not in GRAVE and cause.severity in GRAVE


MIN_ACCUSERS = 3
_ADDRESS = re.compile(r"(?:\d{1,3}\.){3}\d{1,3}")
_PEER = re.compile(r"(?P<name>(?:\d{1,3}\.){3}\d{1,3}|(?=[\w.-]{0,80}\d)[A-Za-z][\w.-]{0,80}\w)(?:[\]<:]|$)")
"""A host name with a digit, or an address, before a port."""


def nodes_at_fault(alerts: Sequence[Alert], where: RankIndex) -> list[tuple[str, int]]:
    """Return (node, number of ranks elsewhere whose lines name its address), the most named first.

    A node whose own lines name another one is left out, unless that leaves none. A name that no line maps to
    a node counts if no other does and `MIN_ACCUSERS` ranks name it.
    """
    votes: dict[str, set[object]] = defaultdict(set)
    unknown: dict[str, set[object]] = defaultdict(set)
    naming: set[str | None] = set()
    for alert in alerts:
        for name in ("peer", "peer_host", "host", "address", "remote"):
            peer = alert.fields.get(name)
            node = None if peer is None else where.named(peer)
            who = alert.rank if alert.rank is not None else alert.id
            if node is not None and node != alert.node and alert not in LAUNCHER:
                votes[node].add(who)
                naming.add(alert.node)
            elif peer is not None and node is None and alert not in LAUNCHER:
                unknown[_stated_name(str(peer), where)].add(who)
    if not votes:
        votes = {name: who for name, who in unknown.items() if name and len(who) >= MIN_ACCUSERS}
    first = {node: who for node, who in votes.items() if node not in naming} or votes
    return sorted(((node, len(who)) for node, who in first.items()), key=lambda each: (-each[1], each[0]))


def _stated_name(peer: str, where: RankIndex) -> str:
    """Return the name or address of a peer that no line maps; empty in a live fleet, which knows all."""
    found = _PEER.match(peer.strip("[]<> "))
    return "" if found is None or where.places.live else found["name"]


def confidence_of_votes(node: str, count: int, where: RankIndex) -> Confidence:
    """Return the confidence in a node that `count` ranks name as the peer that they lost.

    An address that no line maps to a node may be a port of any of them.
    """
    unknown = _ADDRESS.fullmatch(node) is not None and not where.on(node) and where.named(node) is None
    return "medium" if count > 1 and not unknown else "low"


def without_reporters(
    votes: Sequence[tuple[str, int]], cause: Alert, alerts: Sequence[Alert], where: RankIndex, job: str | None
) -> tuple[list[tuple[str, int]], str | None]:
    """Return the votes for nodes that do not report the cause, and the job's only such node (or None)."""
    reporters = {alert.node for alert in alerts if alert.code == cause.code}
    others = {place.node for place in where.ranks(job) if place.node} - reporters
    left = [(node, count) for node, count in votes if node not in reporters]
    return left, next(iter(others)) if len(others) == 1 else None


def all_placed(where: RankIndex, job: str | None) -> bool:
    """Return True if the node of every rank is known and there are several ranks."""
    ranks = where.world(job)
    placed = {place.rank for place in where.ranks(job) if place.node}
    return len(ranks) > 1 and ranks == placed == set(range(len(ranks)))


def lost_by_all_others(node: str, alerts: Sequence[Alert], where: RankIndex, job: str | None) -> bool:
    """Return True if all ranks on other nodes lost a peer, and those of this node, whose logs are read, none.

    A broken link between two living nodes is logged on both sides.
    """
    there = where.on(node, job)
    here = {place.rank for place in there}
    lost = {alert.rank for alert in alerts if alert in PEER_CONNECTION_ERRORS}
    read = all(place.logs for place in there)
    return bool(there) and read and where.world(job) - here == lost - {None} and all_placed(where, job)
