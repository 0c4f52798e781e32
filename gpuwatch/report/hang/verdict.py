"""A verdict on a hang as text: the sentence, then its evidence."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.blocks.lines import text_lines
from gpuwatch.blocks.model import Line, Property
from gpuwatch.diagnose.model.verdict import Verdict, grounds
from gpuwatch.plain import plain


def verdict_lines(verdict: Verdict, before: Sequence[Line] = ()) -> list[Line]:
    """Return the verdict's sentence, `before`, then evidence and what would confirm it.

    The confidence precedes the evidence if the verdict states a problem.
    """
    lines = [Line(plain(verdict.sentence), "critical" if verdict.wrong else "ok"), *before]
    sure = [Property("confidence", verdict.confidence)] if verdict.wrong else []
    return [*lines, *text_lines([*sure, *grounds(verdict)])]
