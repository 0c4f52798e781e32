"""Alerts for inference servers: errors, growing queues, servers that do not answer."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import Literal

from gpuwatch.diagnose.alerts.hysteresis import SymptomWatch
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.serving.server_facts import WINDOW_S, ServerFacts, server_facts
from gpuwatch.fleet.fleet import Fleet
from gpuwatch.fleet.servers import InferenceServer
from gpuwatch.hosts.plan import Thresholds
from gpuwatch.wire import Severity

EVERY_S = 5.0
ERROR_PCT, MANY_ERRORS_PCT = 1.0, 5.0
"""Percent of failed requests from which a warning (an objective of 99 %) and an error are raised."""
MIN_REQUESTS = 20.0
"""Least requests in the window that an error rate needs."""
GROWTH, MIN_GROWTH = 1.5, 10.0
"""Factor and number of requests by which the median queue of the last third must exceed that of the first.

Half of the window may be the ramp of a burst that ends.
"""
SILENT_S = 30.0
"""Seconds without metrics after which a server counts as silent."""
TITLES = {
    "serve.errors": "Inference server fails requests",
    "serve.queue_grows": "Queue of an inference server grows",
    "serve.unreachable": "Inference server serves no metrics",
}


class ServingWatch(SymptomWatch):
    """Checks every inference server; an alert fires when its problem has lasted `hold_s`."""

    def __init__(self, thresholds: Thresholds) -> None:
        super().__init__(EVERY_S, thresholds.clear_s)
        self._hold_s = thresholds.hold_s

    def _check_fleet(self, fleet: Fleet, now: float, wall: float) -> bool:
        moved = False
        for server in fleet.servers.servers.values():
            facts = server_facts(server, now)
            for code, severity, text in signs(server, facts, now):
                alert = _alert(code, severity, text, server, wall)
                lasted_s = self._lasting.seen(alert.id, now)
                before = self._lasting.firing(alert.id)
                if lasted_s >= self._hold_s and (before is None or before.severity != severity):
                    self._lasting.report(alert, now, wall)
                    moved = True
        return moved


def signs(server: InferenceServer, facts: ServerFacts, now: float) -> Iterator[tuple[str, Severity, str]]:
    """Yield code, severity and sentence of each current problem of a server."""
    if server.failing_since is not None and now - server.failing_since >= SILENT_S:
        yield "serve.unreachable", "warning", f"no metrics: {server.error}"
    if facts.stale:
        return
    if (
        facts.error_pct is not None
        and facts.error_pct >= ERROR_PCT
        and facts.requests is not None
        and facts.requests >= MIN_REQUESTS
    ):
        severity: Severity = "error" if facts.error_pct >= MANY_ERRORS_PCT else "warning"
        text = f"{facts.error_pct:.1f} % of {facts.requests:.0f} requests failed in {WINDOW_S:.0f} s"
        yield "serve.errors", severity, text
    grown = growth(server)
    if grown is not None:
        before, after = grown
        text = f"requests in the queue went from {before:.0f} to {after:.0f} in {WINDOW_S:.0f} s"
        if facts.cache_pct is not None:
            text += f"; the KV cache is {facts.cache_pct:.0f} % full"
        yield "serve.queue_grows", "warning", text


def growth(server: InferenceServer) -> tuple[float, float] | None:
    """Return the median queue in the first and in the last third of the window, if it grows; else None."""
    newest = server.readings[-1].at
    window = [each for each in server.readings if each.at >= newest - WINDOW_S and each.waiting is not None]
    if not window or newest - window[0].at < 0.8 * WINDOW_S:
        return None
    third = WINDOW_S / 3
    first = median(each.waiting or 0.0 for each in window if each.at <= window[0].at + third)
    last = median(each.waiting or 0.0 for each in window if each.at >= newest - third)
    return (first, last) if last >= GROWTH * first and last - first >= MIN_GROWTH else None


def _alert(code: str, severity: Severity, text: str, server: InferenceServer, wall: float) -> Alert:
    kind: Literal["value", "line"] = "value" if server.file is None else "line"
    proof = Proof(kind, text, wall, node=server.node, file=server.file, offset=server.offset)
    return Alert(
        id=f"{code}@{server.name}",
        code=code,
        severity=severity,
        title=TITLES[code],
        text=f"server {server.name}: {text}",
        proof=(proof,),
        role="root",
        node=server.node,
    )
