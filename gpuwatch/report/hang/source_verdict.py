"""What a witness of a hang says, in words and as plain data: the sentence, then what it rests on."""

from __future__ import annotations

from collections.abc import Sequence

from gpuwatch.diagnose.model.source_verdict import SourceVerdict
from gpuwatch.plain import plain
from gpuwatch.report.incidents.text import INDENT, fact, heading, steps
from gpuwatch.report.once.json_output import Facts
from gpuwatch.report.output.line import ReportLine
from gpuwatch.report.output.renamed_keys import with_new_names


def testimony_lines(said: SourceVerdict, before: Sequence[ReportLine] = ()) -> list[ReportLine]:
    """The sentence first; `before` stands between it and the evidence."""
    lines = [ReportLine(plain(said.sentence), "critical" if said.wrong else "ok"), *before]
    if said.wrong:
        lines.append(fact("confidence", said.confidence))
    if said.evidence:
        lines.append(heading("evidence"))
        lines += [ReportLine(f"{INDENT}  {plain(each)}") for each in said.evidence]
    return lines + steps("to confirm", said.settle)


def testimony_facts(said: SourceVerdict) -> Facts:
    """The same for scripts."""
    return with_new_names(
        {
            "wrong": said.wrong,
            "sentence": plain(said.sentence),
            "culprits": list(said.culprits),
            "confidence": said.confidence if said.wrong else None,
            "evidence": [plain(each) for each in said.evidence],
            "settle": [plain(each) for each in said.settle],
        }
    )
