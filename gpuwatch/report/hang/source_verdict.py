"""The verdict of one hang source as text and data: the sentence, then its evidence."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.diagnose.model.source_verdict import SourceVerdict
from gpuwatch.plain import plain
from gpuwatch.report.incidents.text import INDENT, fact, heading, steps
from gpuwatch.report.once.json_output import Facts
from gpuwatch.report.output.renamed_keys import with_new_names
from gpuwatch.report.output.report_line import ReportLine


def testimony_lines(stated: SourceVerdict, before: Sequence[ReportLine] = ()) -> list[ReportLine]:
    """Return the verdict's sentence, `before`, then confidence, evidence and what would confirm it."""
    lines = [ReportLine(plain(stated.sentence), "critical" if stated.wrong else "ok"), *before]
    if stated.wrong:
        lines.append(fact("confidence", stated.confidence))
    if stated.evidence:
        lines.append(heading("evidence"))
        lines += [ReportLine(f"{INDENT}  {plain(each)}") for each in stated.evidence]
    return lines + steps("to confirm", stated.settle)


def testimony_facts(stated: SourceVerdict) -> Facts:
    """Return the verdict as plain data."""
    return with_new_names(
        {
            "wrong": stated.wrong,
            "sentence": plain(stated.sentence),
            "culprits": list(stated.culprits),
            "confidence": stated.confidence if stated.wrong else None,
            "evidence": [plain(each) for each in stated.evidence],
            "settle": [plain(each) for each in stated.settle],
        }
    )
