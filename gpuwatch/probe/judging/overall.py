"""Makes the sentences about all links together: the healthy one, doubts, and what no component explains."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from statistics import median_low

from gpuwatch.number_text import percent, plural, rate_with_unit, size_text, some
from gpuwatch.probe.judging.checks.collective_signs import failed
from gpuwatch.probe.judging.links.link_assessment import LinkAssessment
from gpuwatch.probe.judging.links.links import BAD_RATIO, NOISY_SPREAD, OK_RATIO, MeasuredLink
from gpuwatch.probe.judging.text.verdict_text import named, numbers
from gpuwatch.probe.results import LinkClass, Results

TOO_FEW = 2
"""Maximum number of links of a probe with two ranks: too few for a best tenth."""
MAX_EVIDENCE = 3
"""Maximum number of attributions of one kind that are shown with their numbers; the others are counted."""


def class_name(link: LinkClass) -> str:
    """Return the class with hyphens: `same-rail`."""
    return link.replace("_", "-")


def all_bad(case: LinkAssessment) -> Iterator[str]:
    """Yield a sentence for each class that is bad as a whole, without a node at fault."""
    for name, bad in case.all_bad.items():
        every = sum(link.link == name for link in case.links)
        links = some(len(bad), every, f"{class_name(name)} link")
        ratios = [link.ratio for link in bad if link.ratio is not None]
        if ratios:
            ratio = percent(median_low(ratios))
            yield f"{links} are at {ratio} of the baseline: look at what they share, not at one node"
        else:
            error = Counter(link.error for link in bad if link.error).most_common(1)
            why = f" ({error[0][0]})" if error else ""
            yield f"{links} failed{why}: a firewall between all nodes, or the wrong interface"


def failed_collectives(results: Results) -> Iterator[str]:
    """Yield a sentence about the first collective whose failure no rank, node or link explains."""
    for each in failed(results)[:1]:
        yield f"{each.op} of {size_text(each.bytes)} failed although every measured link works: {each.error}"


def doubts(case: LinkAssessment) -> Iterator[str]:
    """Yield sentences that state why no component is at fault although some links are not good."""
    measured = sum(link.ratio is not None for link in case.links)
    if case.congested:
        yield (
            f"{some(len(case.congested), measured, 'link')} {_be(case.congested)} slow only while other links"
            " are in use:"
            " congestion, not a fault"
        )
    for name, fast in case.fast_outliers.items():
        best = max(fast, key=lambda link: link.ratio or 0.0)
        rate, usual = (rate_with_unit(each or 0.0) for each in (best.rate, best.reference))
        receivers = sorted({link.dst.node for link in fast})
        if len(receivers) == 1:
            why = f"only {receivers[0]} measures them, and no other node confirms it"
        else:
            why = "either these ends share a machine or switch, or nearly everything else is slow"
        links = f"{plural(len(fast), f'{class_name(name)} link')} {_be(fast)}"
        yield f"{links} far faster than the others ({rate}; usual {usual}): {why}"
    if case.noisy:
        yield (
            f"{some(len(case.noisy), measured, 'link')} vary too much between repeats to be judged:"
            " not enough evidence, repeat when the nodes are quiet"
        )


def _be(links: Sequence[MeasuredLink]) -> str:
    return "is" if len(links) == 1 else "are"


def fine(case: LinkAssessment, results: Results) -> str:
    """Return the sentence of a healthy probe, or of one without anything to compare."""
    links = [link for link in case.links if link.ratio is not None]
    if not links:
        return _no_links(results)
    every = f"all {plural(len(links), 'link')}"
    if len(links) <= TOO_FEW:
        rates = sorted(link.rate or 0.0 for link in links)
        number = " to ".join(dict.fromkeys(rate_with_unit(rate) for rate in (rates[0], rates[-1])))
        work = some(len(links), len(links), "link")
        return f"{work} {'work' if rates[1:] else 'works'} ({number}); too few links to compare"
    far = {link for attribution in case.inside for link in attribution.bad}
    under = [link for link in links if link.grade != "ok" and link not in far]
    if not under and not far:
        worst = min(link.ratio or 0.0 for link in links)
        return f"{every} within {percent(max(0.01, 1.0 - worst))} of the best tenth of their class"
    vary = [link for link in under if link.grade == "noisy"]
    message = []
    if len(under) > len(vary):
        low = some(len(under) - len(vary), len(links), "link")
        most = f" (mostly {named(case.low[0].part)[1]})" if case.low else ""
        message.append(f"{low} at {percent(BAD_RATIO)} to {percent(OK_RATIO)} of their peers' rate{most}")
    if vary:
        why = " between ranks that share a machine's cores" if all(link.shares_cores for link in vary) else ""
        message.append(f"{some(len(vary), len(links), 'link')}{why} vary")
    if far:
        message.append(
            f"{some(len(far), len(links), 'link')} inside of a node slow both ways, as its layout may be"
        )
    return f"no link is bad, {', '.join(message)}"


def nothing_measured(results: Results) -> str | None:
    """Return why a completed probe has no measurement at all, with the remedy; else None.

    None also if nodes cannot connect to each other, which the results state.
    """
    if results.phase != "done" or results.gpus or results.pairs or results.unreachable:
        return None
    if any(each.p50_s is not None or each.error is not None for each in results.collectives):
        return None
    if len(results.slots) == 1:
        return "nothing was measured: one rank has no peer; use more nodes, or --ranks-per-node"
    spent = f"the budget of {results.request.budget_s:g} s was used up before the first number"
    return f"nothing was measured: {spent}; raise it with --time-limit"


def _no_links(results: Results) -> str:
    done = sum(each.p50_s is not None for each in results.collectives)
    if done:
        return f"{plural(done, 'collective')} measured without a fault; no pair was, so no link is judged"
    if results.gpus:
        return f"{plural(len(results.gpus), 'GPU')} measured alone, none is slow; no link was measured"
    return "nothing was measured" if results.over else "nothing is measured yet"


def evidence(case: LinkAssessment) -> Iterator[str]:
    """Yield sentences with numbers about the links as a whole; at most MAX_EVIDENCE of a kind, then a sum."""
    classes: defaultdict[LinkClass, list[MeasuredLink]] = defaultdict(list)
    for link in case.links:
        classes[link.link].append(link)
    for name, links in classes.items():
        yield from _of_class(name, links)
    for attribution in case.low[:MAX_EVIDENCE]:
        yield f"low but not bad: {numbers(attribution)[0]}"
    if len(case.low) > MAX_EVIDENCE:
        yield f"low but not bad: {len(case.low) - MAX_EVIDENCE} more"
    for attribution in case.inside[:MAX_EVIDENCE]:
        yield numbers(attribution)[0]
    if case.inside:
        pairs = plural(len(case.inside), "pair")
        yield f"{pairs} of GPUs slow both ways: the layout of the node may explain that (nvidia-smi topo -m)"


def _of_class(name: LinkClass, links: list[MeasuredLink]) -> Iterator[str]:
    grades = Counter(link.grade for link in links)
    best = max((link.reference or 0.0 for link in links), default=0.0)
    message = [f"{grades['bad']} under {BAD_RATIO:g} of that"] if grades["bad"] else []
    message += [f"{grades['low']} under {OK_RATIO:g} of that"] if grades["low"] else []
    message += [f"{grades['noisy']} vary by over {percent(NOISY_SPREAD)}"] if grades["noisy"] else []
    message += [f"{grades['dead']} carry no data"] if grades["dead"] else []
    if message:
        every = plural(len(links), f"{class_name(name)} link")
        tenth = f", the best tenth at {rate_with_unit(best)}" if best else ""
        yield f"{every}{tenth}: {', '.join(message)}"
