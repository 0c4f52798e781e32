"""The pane with the alerts of a node, the rows of a GPU's alerts, and the code that `i` explains."""

from __future__ import annotations

from msgspec.structs import replace
from rich.segment import Segment

from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.condition import ORDER
from gpuwatch.diagnose.model.text import ranks_text
from gpuwatch.number_text import ago_text, ranges
from gpuwatch.tui.model.alert_snapshot import ACTIVE, AlertSnapshot, Bundle, bundles, standing
from gpuwatch.tui.model.node_summary import NodeView
from gpuwatch.tui.node.panes import NodePane
from gpuwatch.tui.toolkit.lines.item_page import hanging
from gpuwatch.tui.toolkit.lines.rows import Row, note, wrapped
from gpuwatch.tui.toolkit.styles import StyleSet


def alert_rows(alert: Alert, wall: float, width: int, look: StyleSet) -> list[Row]:
    """Return the lines of one alert in full; `wall` is the current time in unix seconds."""
    fires = standing(alert) == "firing"
    sign = look.mark(alert.severity) if fires else Segment(look.glyph(alert.severity), look.dim)
    rank = "" if alert.rank is None else f"rank {alert.rank}: "
    head = (Segment(" "), sign, Segment(" "))
    style = look.severity[alert.severity] if fires else look.dim
    times = f"x{alert.count}" if alert.count > 1 else ""
    state = "" if fires else standing(alert)
    gpu = "" if alert.gpu is None else f"GPU {alert.gpu}"
    facts = (state, gpu, alert.code, times, ago_text(wall - alert.last))
    under = wrapped("  ".join(fact for fact in facts if fact), width, look.dim, indent=3)
    return [*hanging(head, rank + (alert.text or alert.title), width, style), *under]


def as_one(bundle: Bundle) -> Alert:
    """Return alerts with one code and state as one alert about all their ranks, or all their GPUs."""
    first, ranks = bundle.alerts[0], bundle.ranks
    if not bundle.folded:
        return first
    gpus = sorted({alert.gpu for alert in bundle.alerts if alert.gpu is not None})
    place = ranks_text(ranks) if ranks else f"GPUs {ranges(gpus)}" if len(gpus) > 1 else ""
    return replace(
        first,
        severity=min((alert.severity for alert in bundle.alerts), key=ORDER.index),
        text=": ".join(part for part in (place, first.title) if part),
        rank=None,
        gpu=gpus[0] if len(gpus) == 1 else None,
        count=bundle.count,
        last=max(alert.last for alert in bundle.alerts),
    )


def code_at(reported: AlertSnapshot, view: NodeView | None, gpu: int | None) -> str:
    """Return the code of the first alert or condition of a GPU (its index), or of a node if `gpu` is None.

    "": it has none.
    """
    if view is None:
        return ""
    codes = [each.code for each in reported.at(view.name, gpu) if standing(each) in ACTIVE]
    codes += [each.code for each in view.conditions if gpu in (None, each.gpu)]
    return codes[0] if codes else ""


class NodeAlerts(NodePane):
    """The pane with the alerts of a node: one for each code and state, as its tab counts them."""

    def __init__(self, name: str, *, id: str) -> None:  # noqa: A002 - textual's name
        super().__init__(name, self._rows_of, id=id)

    def _rows_of(self, view: NodeView, width: int, look: StyleSet, now: float) -> list[Row]:  # noqa: ARG002 - a Builder
        own, wall = self.view_state.snapshot.at(view.name), self.view_state.wall()
        alerts = [as_one(bundle) for bundle in bundles({each.id: each for each in own})]
        rows = [row for alert in alerts for row in alert_rows(alert, wall, width, look)]
        return rows or [note("none", look)]
