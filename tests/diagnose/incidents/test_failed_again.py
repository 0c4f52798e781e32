"""An incident that is over because its rank went on, and a rank that fails afterwards."""

from __future__ import annotations

import pytest

from gpuwatch.diagnose.incidents.resolution import LastStep, closings
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.fleet.jobs.places import Places

T = 1_790_000_000.0
PROOF = (Proof("line", "x", T, node="n1", file="/logs/rank0.log", offset=40),)


def alert(rank: int, at: float, code: str = "rank.killed", *, recovered: bool = False) -> Alert:
    return Alert(
        id=f"{code}{rank}", code=code, severity="warning" if recovered else "error", title=code, text=code,
        proof=PROOF, role="root", rank=rank, first=at, last=at, recovered=recovered,
        recovered_at=at + 2 if recovered else None,
    )  # fmt: skip


@pytest.mark.parametrize(("later_s", "closed"), [(None, True), (30.0, False)])
def test_a_later_failure_keeps_it_open(later_s: float | None, *, closed: bool) -> None:
    cause = alert(1, T, recovered=True)
    later = [] if later_s is None else [alert(0, T + later_s, "code.shape")]
    last = max(each.last for each in (cause, *later))
    incident = Incident(
        "4711-1", 1, "rank 1 was killed", cause.code, "error", T, last, cause=cause, alerts=(cause, *later)
    )
    assert bool(closings([incident], {}, Places(), {}, T + 60, {})) == closed


@pytest.mark.parametrize(("step_s", "follows"), [(-10.0, False), (10.0, True)])
def test_a_step_of_before_the_file_was_cut_does_not_follow(step_s: float, *, follows: bool) -> None:
    """The file is cut to nothing; its offsets before are beyond the line that was written then."""
    step = LastStep("n1", "/logs/rank0.log", 0, 9000, T + step_s)
    assert step.follows(alert(0, T)) == follows
