"""Finds evidence in collectives: wrong results, failures, and the rank that others wait for.

Their rates are never compared with a data sheet or a link: a healthy fabric reaches an eighth of its NICs'
rate at 16 MB, and within one node a collective may exceed the wire rate (NVLS).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from gpuwatch.number_text import size_text
from gpuwatch.probe.judging.links.attribution import label
from gpuwatch.probe.judging.text.verdict_text import NamedCulprit
from gpuwatch.probe.results import CollectiveResult, Results
from gpuwatch.probe.verdict import Culprit

SYMMETRIC = frozenset(("all_reduce", "all_gather", "reduce_scatter", "all_to_all"))
"""Collectives in which all ranks do the same; in a broadcast, the root waits least by design."""
MIN_SHARE = 0.75
MIN_RESULTS = 4
"""Minimum number of results that must name the same rank; fewer may be chance."""


def wrong(results: Results) -> list[str]:
    """Return one sentence for each collective with an incorrect result."""
    return [
        f"{each.op} of {size_text(each.bytes)} gives a {each.error or 'wrong result'}"
        for each in results.collectives
        if each.correct is False
    ]


def failed(results: Results) -> list[CollectiveResult]:
    """Return the collectives that were tried and failed.

    An operation that the backend lacks is no failure.
    """
    return [each for each in results.collectives if each.error is not None and not _lacking(each.error)]


def _lacking(error: str) -> bool:
    return any(word in error for word in ("not supported", "cannot do", "n/a", "lacks"))


def waited_for(collectives: Sequence[CollectiveResult]) -> tuple[int, int, int] | None:
    """Return the rank that nearly all results name as waiting least; None: there is none.

    The tuple is (rank, number of results that name it, number of results).
    """
    done = [each for each in collectives if each.op in SYMMETRIC and each.p50_s is not None]
    votes = Counter(each.least_waiting for each in done if each.least_waiting is not None)
    if not votes:
        return None
    rank, count = votes.most_common(1)[0]
    several_ops = len({each.op for each in done if each.least_waiting == rank}) > 1
    enough = count >= MIN_RESULTS and count >= MIN_SHARE * len(done) and several_ops
    return (rank, count, len(done)) if enough else None


def waited_for_alerts(results: Results) -> NamedCulprit | None:
    """Return the rank of `waited_for` as a culprit, for a probe that measured no pairs.

    None: there is none.
    """
    found = waited_for(results.collectives)
    slot = next((slot for slot in results.slots if found is not None and slot.rank == found[0]), None)
    if found is None or slot is None:
        return None
    several = sum(other.node == slot.node for other in results.slots) > 1
    name = f"{slot.node} {label(slot)}" if several else slot.node
    text = waiting_text(found, name)
    culprit = Culprit(
        "gpu" if slot.gpu is not None and several else "node", name, None, (text,), "is waited for"
    )
    return NamedCulprit(culprit, f"{name} delays the others: {text}")


def waiting_text(found: tuple[int, int, int], name: str) -> str:
    """Return a result of `waited_for` as a sentence of evidence."""
    rank, count, every = found
    return f"rank {rank} ({name}) waits least in {count} of {every} collectives, so the others wait for it"
