"""Verdict from NCCL RAS: ranks that launched fewer collectives, and dead or unresponsive ranks."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.diagnose.hang.ras.model import Bucket, Communicator, Ras, RasRank
from gpuwatch.diagnose.model.verdict import Confidence, Verdict
from gpuwatch.number_text import plural, ranges

Locate: TypeAlias = Callable[[str | None, int | None], int | None]
"""A function that returns the global rank of a host and pid, or None."""
NOBODY: Mapping[str, str] = {}
REMOTE = "remote process error"
STILL_LISTED = "its node lists that process as running: only RAS's own network has lost it"
ONE_NODE = "only one node's RAS reports this, about another node: nothing confirms it"
LAUNCHES = "RAS counts launches, not completions: flight recorder dumps show in which collective they wait"


class _Charge(Struct, frozen=True):
    """Evidence from one communicator that some of its ranks are dead, silent, failed or behind."""

    weight: int
    """Strength of the evidence; 0 is the strongest."""
    peers: tuple[RasRank, ...]
    what: str
    confidence: Confidence
    communicator: Communicator
    size: int
    node: str = ""
    """The node that answered."""


def judge_ras(
    answers: Sequence[Ras],
    locate: Locate = lambda _host, _pid: None,
    names: Mapping[str, str] = NOBODY,
    running: Collection[int] = (),
) -> Verdict:
    """Return the verdict on all RAS answers about one job (several nodes may have answered).

    Dead ranks are the strongest evidence, then ranks that do not answer, ranks with an error, and ranks that
    launched fewer collectives.

    Args:
        answers: The answers of RAS.
        locate: Host and pid -> global rank, or None.
        names: Address -> node, for hosts that RAS lists by address.
        running: Ranks whose nodes have just reported their processes.
    """
    charges = [
        replace(charge, node=ras.node)
        for ras in answers
        for each in ras.communicators
        for charge in _charges(each)
    ]
    evidence = [sentence for ras in answers for sentence in _circumstances(ras)]
    if not charges:
        lost = list(dict.fromkeys(peer for ras in answers for peer in ras.dead))
        if not lost:
            return _none_behind(answers, evidence)
        reporters = {ras.node for ras in answers if not set(lost[:1]).isdisjoint(ras.dead)}
        confirmed = _is_confirmed(lost[:1], reporters, names)
        return _lost(lost, locate, names, evidence, running, confirmed=confirmed)
    world = max((each.size or 0 for ras in answers for each in ras.communicators), default=0)
    charges.sort(key=lambda charge: (charge.weight, len(charge.peers), -(charge.communicator.size or 0)))
    first = charges[0]
    ranks = [_global(peer, first.communicator, world, locate) for peer in first.peers]
    is_listed = any(locate(peer.host, peer.pid) is not None for peer in first.peers)
    if not first.weight and (is_listed or set(running).intersection(ranks)):
        evidence.append(STILL_LISTED)
        first = replace(first, confidence="medium")
    reporters = {each.node for each in charges if (each.weight, each.peers) == (first.weight, first.peers)}
    if first.confidence == "high" and not _is_confirmed(first.peers, reporters, names):
        evidence.append(ONE_NODE)
        first = replace(first, confidence="medium")
    reported = [f"{_whose(charge, world, locate, names)} {charge.what}" for charge in charges[:8]]
    return Verdict(
        source="ras",
        wrong=True,
        sentence=f"{_whose(first, world, locate, names)} {first.what}, according to NCCL RAS",
        culprits=tuple(sorted(rank for rank in set(ranks) if rank is not None)),
        confidence=first.confidence,
        evidence=tuple(dict.fromkeys([*reported, *evidence])),
        settle=(LAUNCHES,) if first.weight > 2 else ("the log and the node of that rank",),
    )


def _none_behind(answers: Sequence[Ras], evidence: Sequence[str]) -> Verdict:
    """Return the verdict on answers that name neither a dead rank nor one that is behind."""
    if not answers:
        return Verdict("ras", wrong=False, sentence="NCCL's RAS did not answer")
    if not any(ras.counted for ras in answers):
        sentence = (
            "NCCL's RAS reports no collective counts for any rank, so it cannot show which rank is behind"
        )
        return Verdict("ras", wrong=False, sentence=sentence, evidence=tuple(evidence))
    sentence = "NCCL's RAS finds no rank behind: all ranks have launched the same collectives"
    settle = ("a stuck kernel or network looks the same: " + LAUNCHES,)
    return Verdict("ras", wrong=False, sentence=sentence, evidence=tuple(evidence), settle=settle)


def _charges(each: Communicator) -> list[_Charge]:
    found = []
    size = each.size or 0

    def charge(weight: int, peers: Sequence[RasRank], what: str, confidence: Confidence) -> None:
        if peers:
            found.append(_Charge(weight, tuple(peers), what, confidence, each, size))

    many = size > 2
    charge(0, each.dead, "is reported dead by the other ranks: its process cannot be reached", "high")
    charge(1, each.silent, "does not answer: its process is stopped, or its node is unreachable", "medium")
    for words in dict.fromkeys(words for _, words in each.failed):
        noticed = words == REMOTE  # the process itself is healthy: it reports the end of another one
        weight = 5 if noticed else 2
        confidence: Confidence = "low" if noticed else "medium"
        charge(
            weight, [peer for peer, stated in each.failed if stated == words], f"reports: {words}", confidence
        )
    charge(3, each.left, "has left the communicator in which the others are", "medium")
    for words in dict.fromkeys(words for _, words in each.ending):
        charge(
            3,
            [peer for peer, stated in each.ending if stated == words],
            f"is {words}, unlike the others",
            "medium",
        )
    for name, buckets in each.launched.items():
        fewest = buckets[0]
        ahead = sum(bucket.size for bucket in buckets[1:])
        if not fewest.peers:
            continue
        most = max(buckets, key=lambda bucket: bucket.size)
        confidence = "medium" if many and fewest.size < most.size else "low"
        if many and 4 * fewest.size <= size and _stands_apart(buckets):
            confidence = "high"
        own = f"{fewest.count or 'no'} {name}{'' if fewest.count == 1 else 's'}"
        highest = buckets[-1].count
        reached = str(highest) if len(buckets) == 2 else f"more (up to {highest})"
        charge(
            4,
            fewest.peers,
            f"has launched {own}, while {plural(ahead, 'rank')} launched {reached}",
            confidence,
        )
    return found


def _stands_apart(buckets: Sequence[Bucket]) -> bool:
    """Return True if the ranks have only two different counts; with more, some are merely ahead."""
    return len(buckets) == 2


def _circumstances(ras: Ras) -> list[str]:
    version = f" (NCCL {ras.version})" if ras.version else ""
    reported = [
        f"{plural(len(ras.communicators), 'communicator')} reported by {ras.node} on {ras.address}{version}"
    ]
    if ras.timeouts:
        reported.append(f"{plural(ras.timeouts, 'process')} did not answer RAS in time")
    return reported


def _lost(
    lost: Sequence[RasRank],
    locate: Locate,
    names: Mapping[str, str],
    evidence: Sequence[str],
    running: Collection[int],
    *,
    confirmed: bool,
) -> Verdict:
    ranks = [rank for peer in lost if (rank := locate(peer.host, peer.pid)) is not None]
    named = ", ".join(
        f"process {peer.pid} on {names.get(peer.host or '', peer.host)} (GPU {peer.gpu})" for peer in lost[:4]
    )
    sentence = f"{named}: reported dead by the others, according to NCCL RAS"
    is_listed = bool(set(running).intersection(ranks))
    confidence: Confidence = "medium" if is_listed or not confirmed else "high"
    doubts = (*([STILL_LISTED] if is_listed else ()), *(() if confirmed else [ONE_NODE]))
    return Verdict("ras", True, sentence, tuple(sorted(ranks)), confidence, (*evidence, *doubts))


def _is_confirmed(peers: Sequence[RasRank], reporters: Collection[str], names: Mapping[str, str]) -> bool:
    """Return True if several nodes report these ranks, or one node reports its own processes."""
    (reporter,) = reporters if len(reporters) == 1 else ("",)
    own = (reporter, "127.0.0.1", "::1")
    return not reporter or all(names.get(each.host or "", each.host) in own for each in peers)


def _global(peer: RasRank, communicator: Communicator, world: int, locate: Locate) -> int | None:
    """Return the global rank of a peer, or None.

    If `locate` does not know the peer, its rank in the communicator is the global one only if the
    communicator has all `world` ranks.
    """
    known = locate(peer.host, peer.pid)
    if known is not None:
        return known
    return peer.rank if communicator.size == world else None


def _whose(charge: _Charge, world: int, locate: Locate, names: Mapping[str, str]) -> str:
    ranks = [_global(peer, charge.communicator, world, locate) for peer in charge.peers]
    inner = charge.communicator
    if len(charge.peers) == 1:
        peer = charge.peers[0]
        where = " ".join(
            ([names.get(peer.host, peer.host)] if peer.host else [])
            + ([f"GPU {peer.gpu}"] if peer.gpu is not None else [])
            + ([f"pid {peer.pid}"] if peer.pid is not None else [])
        )
        number = (
            f"rank {ranks[0]}" if ranks[0] is not None else f"rank {peer.rank} of communicator {inner.hash}"
        )
        return f"{number} ({where})" if where else number
    known = [rank for rank in ranks if rank is not None]
    if len(known) == len(ranks):
        return f"each of ranks {ranges(known)}"
    return f"each of ranks {ranges(peer.rank for peer in charge.peers)} of communicator {inner.hash}"
