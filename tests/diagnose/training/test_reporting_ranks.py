"""The rank that logs a loss for its job is not the cause of what the loss shows."""

from __future__ import annotations

import pytest

from gpuwatch import wire
from gpuwatch.diagnose.model.incident import Incident
from tests.diagnose.watched_jobs import Watched
from tests.fleet.jobs.two_jobs import WALL, rank


def nan_of(first: dict[int, int], world: int, *, raised: bool) -> Incident:
    """The incident of a job whose ranks in `first` log their losses, NaN from their step on."""
    reported = Watched()
    ranks = [rank(number, 900 + number, world, start=WALL - 90) for number in range(world)]
    reported.run("n1", *ranks)
    reported.list_files("n1", *(wire.LogFile(each.logs[0], pids=[each.pid]) for each in ranks))
    for step in range(1, 60):
        for number, since in first.items():
            reported.report(
                "n1",
                wire.Progress(
                    t=WALL + step, seq=4, file=ranks[number].logs[0], offset=step, at=WALL + step,
                    dialect="x", rank=number, fields={"step": step, "loss": "nan" if step >= since else 2.0},
                ),
                at=float(step),
            )  # fmt: skip
    for number, since in first.items():
        reported.find(
            "n1", ranks[number].logs[0], "num.nan_loss", float(since), rank=number, rank_from="process",
            severity="critical",
        )  # fmt: skip
    if raised:
        reported.find("n1", ranks[0].logs[0], "python.exception", 59.0, rank=0, rank_from="process")
    for second in range(4):
        reported.look(60.0 + 3 * second)
    (incident,) = reported.book.incidents
    assert incident.code == "num.nan_loss"
    return incident


@pytest.mark.parametrize(
    ("first", "raised", "world", "culprit"),
    [
        ({0: 50}, False, 2, None),  # a reduced loss: rank 0 is the one that logs
        ({1: 50}, False, 2, None),
        ({0: 50, 1: 50}, False, 2, None),
        ({0: 50, 1: 48}, False, 2, 1),
        ({0: 50, 1: 90}, False, 2, 0),  # the losses of rank 1 are numbers
        ({0: 50}, True, 2, 0),  # it stopped the job
        ({0: 50}, False, 1, 0),
    ],
)
def test_a_rank_is_named_only_where_others_log_too(
    first: dict[int, int], culprit: int | None, world: int, *, raised: bool
) -> None:
    found = nan_of(first, world, raised=raised)
    assert found.rank == culprit
    if culprit is None:
        assert found.node is None
        assert "rank 0" not in found.headline
