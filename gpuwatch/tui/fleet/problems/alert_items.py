"""Entries of the problem list that are made of alerts, and what operators did with an entry's alert."""

from __future__ import annotations

from msgspec import structs
from rich.segment import Segment

from gpuwatch.diagnose.health.remedies import REMEDIES
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.straggler.alerts import sentence
from gpuwatch.fleet.nodes.node import Gpu
from gpuwatch.tui.fleet.problems.problem_item import ProblemItem
from gpuwatch.tui.model.alert_snapshot import acknowledged_text, alert_text, severity_shown, standing
from gpuwatch.tui.toolkit.styles import StyleSet, clean


def straggler_item(alert: Alert, gpu: Gpu | None, wall: float) -> ProblemItem:
    """Return the entry of a rank that slows its job, with the figures that prove it."""
    proof = "; ".join(each.text for each in alert.proof[:2])
    item = ProblemItem(
        ("straggler", alert.id), alert.severity, alert.node or "", gpu,
        sentence(structs.replace(alert, node=None, gpu=None)), proof, "", code=alert.code,
    )  # fmt: skip
    return marked(item, alert, wall)


def probed_item(alert: Alert, gpu: Gpu | None, ago: str, wall: float) -> ProblemItem:
    """Return the entry of a culprit of the newest link probe, with its figures and their age."""
    proof = "; ".join((*(each.text for each in alert.proof[:1]), ago))
    item = ProblemItem(
        ("probe", alert.id), alert.severity, alert.node or "", gpu,
        f"{alert.title}: {alert.text}", proof, REMEDIES.get(alert.code, ""), code=alert.code,
    )  # fmt: skip
    return marked(item, alert, wall)


def marked(item: ProblemItem, alert: Alert | None, wall: float) -> ProblemItem:
    """Return the item muted, and with what an operator did, if its alert is acknowledged or silenced.

    `wall`: now, in unix seconds.
    """
    state = "firing" if alert is None else standing(alert)
    if alert is None or state not in ("acknowledged", "silenced"):
        return item
    words = acknowledged_text(alert.acknowledged_at, wall) if state == "acknowledged" else state
    detail = "; ".join(filter(None, (words, item.detail)))
    return structs.replace(item, severity="unknown", sign=item.severity, detail=detail)


def alert_row(alert: Alert, wall: float, look: StyleSet) -> tuple[Segment, ...]:
    """Return one line with an alert that is no entry of the list; `wall`: now, in unix seconds."""
    style = look.severity[severity_shown(alert)]
    return Segment(look.glyph(alert.severity), style), Segment(clean(f" {alert_text(alert, wall)}"), style)
