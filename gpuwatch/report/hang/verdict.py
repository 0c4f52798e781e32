"""A verdict on a hang as text: the sentence, then its evidence."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.blocks.model import Line
from gpuwatch.diagnose.model.verdict import Verdict
from gpuwatch.plain import plain
from gpuwatch.report.incidents.text import INDENT, fact, heading, steps


def verdict_lines(verdict: Verdict, before: Sequence[Line] = ()) -> list[Line]:
    """Return the verdict's sentence, `before`, then confidence, evidence and what would confirm it."""
    lines = [Line(plain(verdict.sentence), "critical" if verdict.wrong else "ok"), *before]
    if verdict.wrong:
        lines.append(fact("confidence", verdict.confidence))
    if verdict.evidence:
        lines.append(heading("evidence"))
        lines += [Line(f"{INDENT}  {plain(each)}") for each in verdict.evidence]
    return lines + steps("to confirm", verdict.settle)
