"""A verdict on a hang as text: the sentence, then its evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuwatch.blocks.lines import text_lines
from gpuwatch.blocks.model import Item, Line, Property, TextBlock, numbered
from gpuwatch.diagnose.model.verdict import Verdict
from gpuwatch.plain import plain
from gpuwatch.report.incidents.text import titled


def verdict_lines(verdict: Verdict, before: Sequence[Line] = ()) -> list[Line]:
    """Return the verdict's sentence, `before`, then confidence, evidence and what would confirm it."""
    lines = [Line(plain(verdict.sentence), "critical" if verdict.wrong else "ok"), *before]
    return [*lines, *text_lines(_grounds(verdict))]


def _grounds(verdict: Verdict) -> Iterator[TextBlock]:
    if verdict.wrong:
        yield Property("confidence", verdict.confidence)
    yield from titled("Evidence", list(map(Item, verdict.evidence)))
    yield from titled("To confirm", numbered(verdict.settle))
