"""mpirun itself is stopped: its ranks run on until their pipe is full, and no log shows why."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.missing_ranks.stopped import LAUNCHER_CODE
from gpuwatch.report.once.problems.health import placed_conditions
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL, rank

MASTER = "10.0.0.1:29500"


def alerts_of(reported: Watched) -> list[tuple[str | None, int | None, str]]:
    alerts = reported.book.alerts.values()
    return [(each.node, each.rank, each.state) for each in alerts if each.code == LAUNCHER_CODE]


@pytest.mark.parametrize("stopped", ["n2", None])
def test_a_stopped_launcher_is_reported_with_its_node_until_it_runs_on(stopped: str | None) -> None:
    reported = Watched(2)

    def ranks(node: str, stopped: str | None) -> wire.Process:
        number = int(node[1:]) - 1
        one = rank(number, 900 + number, 2, master=MASTER, start=WALL - 90)
        return structs.replace(one, piped=True, launcher=40, launcher_stopped=node == stopped)

    for node in ("n1", "n2"):
        reported.run(node, ranks(node, stopped), at=10.0)
    for second in range(5):
        reported.look(11.0 + second)
    alerts = [each for each in reported.book.alerts.values() if each.code == LAUNCHER_CODE]
    named = [("n2", None, "firing")] if stopped else []
    assert [(each.node, each.rank, each.state) for each in alerts] == named
    found = [
        each.node.name for each in placed_conditions(reported.fleet, 16.0) if _is_stop(each.condition.code)
    ]
    assert found == ([stopped] if stopped else [])
    reported.run("n2", ranks("n2", None), at=17.0)
    for second in range(5):
        reported.look(18.0 + second)
    assert "firing" not in [
        each.state for each in reported.book.alerts.values() if each.code == LAUNCHER_CODE
    ]


def _is_stop(code: str) -> bool:
    return code == "launcher_suspended"
