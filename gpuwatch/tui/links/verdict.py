"""The evidence of a probe's verdict: the culprits with their numbers, alerts, counters, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from gpuwatch.blocks.model import Heading, Item, Line, TextBlock, titled
from gpuwatch.number_text import counted, listed, share_text
from gpuwatch.probe.results import CounterChange, Results
from gpuwatch.probe.verdict import Culprit, ProbeVerdict
from gpuwatch.tui.links.probe_view import LinkPage
from gpuwatch.tui.toolkit.lines.block_rows import painted
from gpuwatch.tui.toolkit.lines.item_page import PageItem
from gpuwatch.tui.toolkit.lines.rows import Row

EVIDENCE, COUNTERS = "Evidence", "Changed counters"
"""Titles of the sections of the page."""
MAX_COUNTERS = 12


class LinkEvidence(LinkPage):
    """The page with the evidence of a probe's verdict, culprits first.

    Choosing a culprit moves the matrix's cursor to its worst link.
    """

    DEFAULT_CSS: ClassVar[str] = "LinkEvidence { height: 1fr; }"

    def parts_of(self, results: Results, width: int) -> Iterator[Row | PageItem]:
        notes = {COUNTERS: str(len(moved))} if len(moved := _moved(results)) > 1 else {}
        yield from painted(evidence_blocks(results), width, self.look, notes)

    def culprit(self, verdict: ProbeVerdict) -> Culprit | None:
        """Return the culprit under the cursor; None if that is on something else."""
        item = self.chosen()
        section, number = item.key if item is not None and isinstance(item.key, tuple) else ("", 0)
        first = section == EVIDENCE and 1 <= number <= len(verdict.culprits)
        return verdict.culprits[number - 1] if first else None


def evidence_blocks(results: Results) -> Iterator[TextBlock]:
    """Yield blocks with the evidence of the verdict, next steps, lost ranks and notes.

    Without a verdict, there are the changed counters (at most `MAX_COUNTERS`) in place of its alerts.
    """
    verdict = results.verdict
    yield Heading(EVIDENCE)
    if verdict is None:
        yield Line("no verdict" if results.over else "no verdict yet", "muted")
    else:
        yield from map(culprit_item, verdict.culprits)
        reported = {sentence for culprit in verdict.culprits for sentence in culprit.evidence}
        yield from (Item(alert, sign="warning") for alert in verdict.alerts if alert not in reported)
        yield from (Item(sentence, sign="bullet") for sentence in verdict.evidence)
        advice = [Item(sentence, sign="bullet") for sentence in verdict.advice]
        yield from titled("Usual causes and next steps", advice)
    yield from titled(f"{counted(len(results.gone), 'rank')} gone", list(_gone(results)))
    if verdict is None:  # the verdict's alerts report them
        moved = [
            Item(f"{each.node} {each.name.replace(':', ' ')} +{each.after - each.before:,.0f}")
            for each in _moved(results)[:MAX_COUNTERS]
        ]
        yield from titled(COUNTERS, moved)
    yield from titled("Notes", [Item(note, sign="bullet") for note in results.notes])


def culprit_item(culprit: Culprit) -> Item:
    """Return the page item of a culprit, with its numbers and its evidence."""
    stated = culprit.state if culprit.ratio is None else f"{share_text(culprit.ratio)} of its peers"
    text = f"{culprit.name}: {stated}"
    return Item(text, sign="critical", style="strong", below=culprit.evidence, below_style="plain")


def _gone(results: Results) -> Iterator[Item]:
    ranks: dict[str, list[int]] = {}
    for rank, reason in results.gone.items():
        ranks.setdefault(reason, []).append(rank)
    for reason, own in ranks.items():
        yield Item(f"rank {listed(list(map(str, own)), 6)}: {reason}", sign="error", copy=reason)


def _moved(results: Results) -> list[CounterChange]:
    """Return the counters that increased, the largest increase first; none whose name begins with `=`."""
    moved = [each for each in results.counters if not each.name.startswith("=") and each.after > each.before]
    return sorted(moved, key=lambda each: each.before - each.after)
