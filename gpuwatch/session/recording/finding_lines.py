"""Answers requests for log lines in a replay from the recorded findings, without a node."""

from __future__ import annotations

from collections.abc import Iterable

from gpuwatch.fleet.fleet import NodeFinding
from gpuwatch.wire import AnyRequest, Finding, Lines, LogLine, ReadLines, Tail

ONLY_FINDINGS = "the recording holds only the lines around findings"
MAX_LINES = 2_000


def finding_lines(findings: Iterable[NodeFinding], node: str, request: AnyRequest) -> Lines | None:
    """Return the answer to a `Tail` or `ReadLines` request, made from the findings in the requested file.

    It has all their lines (at most the last `MAX_LINES`), wherever the request begins. None for other
    requests, or if the file has no findings.
    """
    if not isinstance(request, Tail | ReadLines):
        return None
    rows: dict[int, LogLine] = {}
    for known in findings:
        if known.node == node and known.finding.file == request.file:
            for line in block_lines(known.finding):
                if line.rule or line.offset not in rows:
                    rows[line.offset] = line
    if not rows:
        return None
    lines = [rows[offset] for offset in sorted(rows)][-MAX_LINES:]
    done = isinstance(request, ReadLines)
    size = lines[-1].end
    return Lines(
        t=0.0, seq=0, id=request.id, file=request.file, lines=lines, seam=ONLY_FINDINGS, size=size, done=done
    )


def block_lines(finding: Finding) -> list[LogLine]:
    """Return a finding's lines; their byte offsets follow from the key line's offset and the text lengths."""
    texts, key = finding.lines, finding.key
    if not key < len(texts):
        return []
    offset = finding.offset - sum(len(text.encode()) + 1 for text in texts[:key])
    lines = []
    for number, text in enumerate(texts):
        end = offset + len(text.encode()) + 1
        own = number == key
        if offset >= 0:
            lines.append(
                LogLine(
                    offset=offset,
                    end=end,
                    text=text,
                    t=finding.at if own and finding.timed else None,
                    rank=finding.rank,
                    level=finding.severity if own else None,
                    rule=finding.rule if own else None,
                )
            )
        offset = end
    return lines
