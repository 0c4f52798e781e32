"""Raises alerts for the nodes, NICs, GPUs and links that the newest link probe found slow or dead."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec import structs

from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.check_interval import PeriodicWatch
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.probe.results import Results
from gpuwatch.probe.verdict import Culprit, Status
from gpuwatch.wire import Severity

CODE, TITLE = "probe_slow", "Slow in the link probe"
SEVERITY: Mapping[Status, Severity] = {"bad": "critical", "failed": "error"}
"""Status of a verdict -> severity of its culprits; those of other verdicts are none."""
EVERY_S = 5.0
MAX_CULPRITS = 64
_GPU = re.compile(r" GPU (\d{1,4})$")


class ProbedLinksWatch(PeriodicWatch):
    """Raises an alert for each culprit of a probe; it ends once a later probe of its node finds none."""

    def __init__(self) -> None:
        super().__init__(EVERY_S)
        self._taken: tuple[float, int] | None = None
        """Begin and version of the results that `_wanted` and `_probed` are of."""
        self._wanted: dict[str, Alert] = {}
        self._probed: set[str] = set()

    def take(self, results: Results | None) -> None:
        """Store the verdict of a probe that has ended; others, and None, are ignored."""
        if results is None or results.phase != "done" or results.verdict is None:
            return
        if self._taken == (results.started, results.version):
            return
        self._taken = results.started, results.version
        self._probed = {each.node for each in results.nodes}
        severity, at = SEVERITY.get(results.verdict.status), results.ended or results.started
        culprits = results.verdict.culprits[:MAX_CULPRITS] if severity is not None else ()
        alerts = [_alert(each, severity or "info", self._probed, at) for each in culprits]
        self._wanted = {alert.id: alert for alert in alerts}
        self.hurry()

    def _check(self, fleet: Fleet, now: float, wall: float) -> bool:
        del fleet, now, wall
        before = dict(self.alerts)
        for name, alert in self.alerts.items():
            if name not in self._wanted and (alert.node is None or alert.node in self._probed):
                self.alerts[name] = structs.replace(alert, state="resolved")
        self.alerts |= self._wanted
        return before != self.alerts


def _alert(culprit: Culprit, severity: Severity, nodes: set[str], at: float) -> Alert:
    node = culprit.node
    gpu = _GPU.search(culprit.name)
    how = culprit.state if culprit.ratio is None else f"{100 * culprit.ratio:.0f} % of its peers' rate"
    return Alert(
        id=f"{CODE}@{culprit.kind}:{culprit.name}",
        code=CODE,
        severity=severity,
        title=TITLE,
        text=f"{culprit.kind} {culprit.name.removeprefix(f'{node} ')}: {how}",
        proof=tuple(Proof("value", line, at, node=node) for line in culprit.evidence),
        role="hint",
        node=node if node in nodes else None,
        gpu=None if gpu is None else int(gpu[1]),
        first=at,
        last=at,
        kernel=True,
    )
