"""What failed stands before what only helps to look, in an incident and in its evidence."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.incidents.evidence import evidence
from gpuwatch.wire import Role, Severity
from tests.diagnose.finding import Reporter, places


@pytest.mark.parametrize(("role", "severity"), [("hint", "warning"), ("hint", "error"), ("echo", "info")])
@pytest.mark.parametrize("rank", [3, 5])
def test_a_remark_stands_behind_what_failed_though_it_came_first(
    role: Role, severity: Severity, rank: int
) -> None:
    report = Reporter(places(8))
    report.emit("hub.network", -5, rank, role=role, severity=severity)
    report.emit("oom.cuda", 0, 3)
    report.emit("peer.connection_lost", 1, 5)
    (incident,) = report.judged()
    assert (incident.code, incident.rank) == ("oom.cuda", 3)
    order = ["oom.cuda", "peer.connection_lost", "hub.network"]
    assert [alert.code for alert in incident.alerts] == order
    assert [alert.code for alert, _ in evidence(incident)] == order


def test_a_remark_is_no_key_line_where_the_cause_is_not_known() -> None:
    report = Reporter(places(8))
    report.emit("hub.network", -5, 2, role="hint", severity="warning")
    report.timeouts([0, 1, 2, 4, 5, 6, 7], 0)
    (incident,) = report.judged()
    assert (incident.cause, incident.rank) == (None, 3)
    assert [alert.code for alert, _ in evidence(incident)] == ["nccl.watchdog_timeout", "hub.network"]
