"""The evidence of a probe's verdict: the culprits with their numbers, alerts, counters, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.segment import Segment

from gpuwatch.number_text import counted, share_text
from gpuwatch.probe.results import Results
from gpuwatch.probe.verdict import ProbeVerdict
from gpuwatch.tui.links.probe_view import LinkPage
from gpuwatch.tui.model.severity import Severity
from gpuwatch.tui.toolkit.lines.item_page import PageItem, hanging
from gpuwatch.tui.toolkit.lines.rows import Row, heading, wrapped
from gpuwatch.tui.toolkit.styles import clean

MAX_COUNTERS = 12


class LinkEvidence(LinkPage):
    """The page with the evidence of a probe's verdict, culprits first.

    Choosing a culprit moves the matrix's cursor to its worst link.
    """

    DEFAULT_CSS: ClassVar[str] = "LinkEvidence { height: 1fr; }"

    def parts_of(self, results: Results, width: int) -> Iterator[Row | PageItem]:
        verdict = results.verdict
        yield heading("Evidence", width, self.look)
        if verdict is None:
            text = "no verdict yet" if not results.over else "no verdict"
            yield from wrapped(text, width, self.look.dim)
        else:
            yield from self._culprits(verdict, width)
            reported = {sentence for culprit in verdict.culprits for sentence in culprit.evidence}
            alerts = tuple(alert for alert in verdict.alerts if alert not in reported)
            yield from self._sentences("alert", alerts, width, "warning")
            yield from self._sentences("evidence", verdict.evidence, width, None)
            if verdict.advice:
                yield heading("Usual causes and next steps", width, self.look)
                yield from self._sentences("advice", verdict.advice, width, None)
        yield from self._gone(results, width)
        yield from self._counters(results, width)
        yield from self._notes(results, width)

    def _culprits(self, verdict: ProbeVerdict, width: int) -> Iterator[PageItem]:
        look = self.look
        for number, culprit in enumerate(verdict.culprits):
            stated = culprit.state if culprit.ratio is None else f"{share_text(culprit.ratio)} of its peers"
            head = (Segment(" "), look.mark("critical"), Segment(" "))
            rows = [*hanging(head, f"{culprit.name}: {stated}", width, look.strong)]
            for sentence in culprit.evidence:
                rows += wrapped(sentence, width, look.text, indent=3)
            yield PageItem(("culprit", number), tuple(rows), text=clean(f"{culprit.name}: {stated}"))

    def _sentences(
        self, kind: str, sentences: tuple[str, ...], width: int, severity: Severity | None
    ) -> Iterator[PageItem]:
        look = self.look
        sign = look.mark(severity) if severity else Segment(look.glyphs.bullet, look.dim)
        for number, sentence in enumerate(sentences):
            rows = hanging((Segment(" "), sign, Segment(" ")), sentence, width, look.text)
            yield PageItem((kind, number), rows, text=clean(sentence))

    def _gone(self, results: Results, width: int) -> Iterator[Row | PageItem]:
        if not results.gone:
            return
        yield heading(f"{counted(len(results.gone), 'rank')} gone", width, self.look)
        ranks: dict[str, list[int]] = {}
        for rank, reason in results.gone.items():
            ranks.setdefault(reason, []).append(rank)
        for reason, own in ranks.items():
            named = ", ".join(map(str, own[:6])) + (f" and {len(own) - 6} more" if len(own) > 6 else "")
            head = (Segment(" "), self.look.mark("error"), Segment(" "))
            rows = hanging(head, f"rank {named}: {reason}", width, self.look.text)
            yield PageItem(("gone", reason), rows, text=clean(reason))

    def _counters(self, results: Results, width: int) -> Iterator[Row | PageItem]:
        moved = [
            each for each in results.counters if not each.name.startswith("=") and each.after > each.before
        ]
        if not moved or results.verdict is not None:  # the verdict's alerts report them
            return
        yield heading("Changed counters", width, self.look, f"{len(moved)}" if len(moved) > 1 else "")
        moved.sort(key=lambda each: each.before - each.after)
        for each in moved[:MAX_COUNTERS]:
            more = each.after - each.before
            text = f"{each.node} {each.name.replace(':', ' ')} +{more:,.0f}"
            yield PageItem(("counter", each.node, each.name), tuple(wrapped(text, width, self.look.text)))

    def _notes(self, results: Results, width: int) -> Iterator[Row | PageItem]:
        if not results.notes:
            return
        yield heading("Notes", width, self.look)
        yield from self._sentences("note", tuple(results.notes), width, None)
