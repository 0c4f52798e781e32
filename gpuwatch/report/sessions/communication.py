"""The communication of sessions, and whether they train on several GPUs, as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gpuwatch.blocks.model import Line, Style
from gpuwatch.report.sessions.numbers import fixed, percent, rate, size, whole
from gpuwatch.runs.comparison.communication import CommunicationReport, Reason

VERDICTS: dict[str, tuple[str, Style]] = {
    "multi": ("several GPUs train together", "ok"),
    "single": ("one GPU only", "warning"),
    "doubtful": ("doubtful that several GPUs train together", "warning"),
    "unknown": ("not known", "muted"),
}
SIGNS = {"for": "+", "against": "-", "unknown": "?"}


def communication_lines(report: CommunicationReport) -> Iterator[Line]:
    """Yield lines with the session, its operations, and the verdict with its reasons."""
    session = report.session
    yield Line(f"Session: {session.name}")
    yield Line(f"  GPUs: {whole(session.summary.gpu_count)}")
    yield Line(
        "  Communication Operations:" if report.operations else "  Communication Operations: none logged"
    )
    for operation, share in zip(report.operations, report.shares, strict=True):
        yield Line(f"    {operation.operation}: {operation.count} occurrences")
        if operation.bytes_total is not None:
            yield Line(f"      Avg data size: {megabytes(operation.bytes_avg)}")
            yield Line(f"      Total data: {megabytes(operation.bytes_total)}")
        if operation.bandwidth_avg_bps is not None:
            yield Line(f"      Avg bandwidth: {rate(operation.bandwidth_avg_bps)}")
        if operation.time_total_s is not None:
            spent = fixed(operation.time_total_s, 3, "s")
            yield Line(f"      Total time: {spent}, {percent(share)} of the step time")
    words, style = VERDICTS[report.verdict]
    yield Line(f"  Verdict: {words}", style)
    for reason in report.reasons:
        yield Line(f"    {SIGNS[reason.sign]} {reason.text}", reason_style(reason), hang=6)


def megabytes(count: float | None) -> str:
    """Return bytes as text in megabytes (10**6), so that lines compare: `3025.35MB`.

    Sizes below a megabyte have their own unit.
    """
    return size(count) if count is None or count < 10**6 else f"{count / 10**6:.2f}MB"


def reason_style(reason: Reason) -> Style:
    """Return the style of a reason by its sign."""
    styles: dict[str, Style] = {"for": "plain", "against": "warning", "unknown": "muted"}
    return styles[reason.sign]


def communication_facts(report: CommunicationReport) -> dict[str, Any]:
    """Return one session in the JSON of `gpuwatch runs communication --json`."""
    return {
        "id": report.session.name,
        "gpu_count": report.session.summary.gpu_count,
        "world_size": report.session.summary.world_size,
        "verdict": report.verdict,
        "reasons": [{"code": one.code, "sign": one.sign, "text": one.text} for one in report.reasons],
        "operations": [
            {**msgspec.to_builtins(operation), "share_of_step_time": share}
            for operation, share in zip(report.operations, report.shares, strict=True)
        ],
        "problems": report.session.problems,
    }
