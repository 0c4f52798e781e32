"""A line of a job that had ended before the ranks that run now were started."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.alerts.from_findings import alert_of
from gpuwatch.diagnose.alerts.placement.finding_place import LocatedFinding
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.fleet.jobs.places import Places, RankPlace
from tests.diagnose.finding import PACK, T0

STARTED = T0 + 1000.0


@pytest.mark.parametrize(
    ("after_s", "timed", "until_s", "job", "gpu"),
    [
        (0.0, True, None, None, None),  # the line's own time
        (0.0, False, 0.0, None, None),  # the file's
        (0.0, False, 1100.0, None, 1),  # it was written since
        (1100.0, True, 1100.0, None, 1),
        (0.0, True, 0.0, "run", 1),  # it is known whose it is
        (0.0, False, None, None, 1),
    ],
)
def test_it_is_not_of_a_rank_that_runs(
    after_s: float,
    timed: bool,
    until_s: float | None,
    job: str | None,
    gpu: int | None,
) -> None:
    place = RankPlace(1, "n1", "run", gpu=1, pid=7, since=STARTED, started=STARTED)
    finding = wire.Finding(
        t=T0, seq=1, id=1, rule="python.exception", severity="error", file="/old/x.log", offset=0,
        at=T0 + after_s, timed=timed, backlog=True, lines=["ValueError: bad token 9"], rank=1,
        rank_from="line", job=job,
    )  # fmt: skip
    until = None if until_s is None else T0 + until_s
    where = RankIndex(Places((place,), live=True))
    alert = alert_of(LocatedFinding("n1", finding, written_until=until), PACK, where)
    assert (alert.node, alert.rank, alert.gpu) == ("n1", 1, gpu)
