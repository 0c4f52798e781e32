"""The verdict on a probe's measurements: pure, and cheap enough to be computed after every round.

Order: missing ranks, wrong results, links, GPUs, whole classes of links, the baseline, doubts. Each symptom
is reported once: a culprit explains its links, and a slow collective is no culprit.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, zip_longest

from msgspec.structs import replace

from gpuwatch.probe.judging.checks.alerts import NodeAlert, alerts, tcp_instead_of_rdma
from gpuwatch.probe.judging.checks.baseline import Baseline, compare
from gpuwatch.probe.judging.checks.collective_signs import waited_for_alerts, wrong
from gpuwatch.probe.judging.checks.expected import advice
from gpuwatch.probe.judging.checks.gpu_peers import gpu_alerts, slow_checks
from gpuwatch.probe.judging.checks.missing_ranks import missing_alerts
from gpuwatch.probe.judging.links.attribution import Attribution
from gpuwatch.probe.judging.links.link_assessment import make_case
from gpuwatch.probe.judging.links.links import BAD_RATIO, MeasuredLink
from gpuwatch.probe.judging.one_cause import one_each
from gpuwatch.probe.judging.overall import (
    all_bad,
    doubts,
    evidence,
    failed_collectives,
    fine,
    nothing_measured,
)
from gpuwatch.probe.judging.text.verdict_text import NamedCulprit, reported
from gpuwatch.probe.results import Results
from gpuwatch.probe.verdict import ProbeVerdict, Status

MAX_SAMPLE_LINKS = 4
"""Number of a culprit's links that are measured again as a sample, each alone."""
MAX_SUSPECTS = 64
MAX_STATEMENTS = 2
"""Number of statements in the sentence; the others are counted."""


def judge(results: Results, baseline: Baseline | None = None) -> ProbeVerdict:
    """Return the verdict; while the probe runs it is preliminary, and its sentence states that.

    Args:
        results: Everything measured so far; it is not changed.
        baseline: The rates of a healthy run, or None.
    """
    compared = compare(results, baseline)
    case = make_case(results, compared.floors)
    gone, slow, raised = missing_alerts(results), slow_checks(results), alerts(results)
    ends = case.by_ends if case.attributions else {}
    links = [
        _with_alerts(reported(attribution, ends), attribution, raised) for attribution in case.attributions
    ]
    found = one_each([*links, *gpu_alerts(slow, results)], results.slots)
    waits = None if found or gone else waited_for_alerts(results)
    if waits is not None and not results.pairs:
        found = [waits]
    tcp = tcp_instead_of_rdma(results)

    broken = [each.sentence for each in gone]
    if results.phase in {"failed", "refused"} and not broken:
        broken = [results.reason or "the probe could not continue"]
    nothing = nothing_measured(results)
    if nothing is not None and not broken:
        broken = [nothing]
    bad = [*wrong(results), *tcp, *(each.sentence for each in found), *all_bad(case)]
    bad = bad or ([] if broken else list(failed_collectives(results)))
    worse = compared.regressions(explained=bool(bad or broken))
    bad = bad or worse
    doubtful = list(doubts(case))
    status: Status = "failed" if broken else "bad" if bad else "noisy" if doubtful else "ok"

    beside = [results.reason] if gone and results.reason else []
    beside += evidence(case)
    beside += waits.culprit.evidence if waits is not None and results.pairs else ()
    beside += [each.sentence for each in slow if each.ratio >= BAD_RATIO]
    beside += doubtful if bad or broken else ()
    return ProbeVerdict(
        status=status,
        sentence=_so_far(results) + _in_one([*broken, *bad] or doubtful or [fine(case, results)]),
        culprits=tuple(each.culprit for each in (*gone, *found)),
        evidence=tuple(beside),
        alerts=(*tcp, *worse, *(each.text for each in raised)),
        advice=(*compared.remarks, *advice(results, case.links)),
    )


def _with_alerts(one: NamedCulprit, attribution: Attribution, raised: Sequence[NodeAlert]) -> NamedCulprit:
    """Return the culprit with the alerts of its own nodes (`raised`) added to its evidence.

    A culprit that is a rail or groups of nodes is returned unchanged.
    """
    if attribution.part.scope in {"rail", "groups"}:
        return one
    nodes = {attribution.part.where[0]}
    if attribution.part.scope in {"nodes", "ranks"}:
        nodes = {slot.node for link in attribution.bad for slot in (link.src, link.dst)}
    more = tuple(alert.text for alert in raised if alert.node in nodes)
    return replace(one, culprit=replace(one.culprit, evidence=(*one.culprit.evidence, *more)))


def suspects(results: Results) -> list[tuple[int, int]]:
    """Return (source, destination) of the links to retest alone, the most distinctive first.

    Links that were retested are left out. For a culprit with many links they are a sample; there are at most
    MAX_SUSPECTS in all. Rounds of many pairs can be slow because of congestion alone, so a culprit is
    confirmed by single links.
    """
    case = make_case(results)
    each = [_samples(attribution) for attribution in case.attributions]
    samples = (link for links in zip_longest(*each) for link in links if link is not None)
    found = dict.fromkeys(link.key for link in chain(samples, case.noisy) if not link.retested)
    return [key for key in found if min(key) >= 0][:MAX_SUSPECTS]


def _samples(attribution: Attribution) -> list[MeasuredLink]:
    """Return at most MAX_SAMPLE_LINKS of a culprit's bad links: both ways, different neighbours."""
    ways: dict[bool, list[MeasuredLink]] = {True: [], False: []}
    for link in attribution.bad:
        ways[link.src.node == attribution.part.where[0]].append(link)
    mixed = [
        link for pair in zip_longest(ways[True], reversed(ways[False])) for link in pair if link is not None
    ]
    return mixed[:MAX_SAMPLE_LINKS]


def _in_one(message: Sequence[str]) -> str:
    more = len(message) - MAX_STATEMENTS
    return "; and ".join(message[:MAX_STATEMENTS]) + (f"; and {more} more" if more > 0 else "")


def _so_far(results: Results) -> str:
    if results.phase == "cancelled":
        return "cancelled, so far: "
    return "" if results.over else "so far: "
