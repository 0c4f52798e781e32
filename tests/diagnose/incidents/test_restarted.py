"""An error of an ended attempt, when all that gpuwatch knows stood in the logs before it came."""

from __future__ import annotations

import pytest
from msgspec import structs

from gpuwatch import wire
from gpuwatch.diagnose.incidents.resolution import (
    SILENT_START_S,
    STEPS_AGAIN,
    Attempt,
    JobAttempts,
    LastStep,
    closings,
)
from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.model.incident import Incident
from gpuwatch.fleet.jobs.places import Places
from gpuwatch.wire.progress import PastStep
from tests.diagnose.incidents.alert_cluster import Cluster

T = 1_790_000_000.0
PROOF = (Proof("line", "x", T, node="n1", file="/logs/rank0.log", offset=40),)
BEGAN_S = -300.0
"""When the attempt that runs now was started."""


@pytest.mark.parametrize(
    ("error_s", "not_before_s", "again_s", "steps_s", "over"),
    [
        (-400.0, None, None, (-250.0, -200.0), True),
        (-250.0, -400.0, None, (-250.0, -200.0), True),  # without a time: bounded by the lines around it
        (-100.0, None, None, (-250.0, -200.0), False),  # of the attempt that runs
        (-400.0, None, None, (-450.0, -420.0), False),  # no step since
        (-400.0, None, -350.0, (-250.0, -200.0), True),
        (-400.0, None, -150.0, (-250.0, -200.0), False),  # the new attempt has the same error
    ],
)
def test_it_is_over_where_the_log_shows_later_steps(
    error_s: float,
    not_before_s: float | None,
    again_s: float | None,
    steps_s: tuple[float, float],
    *,
    over: bool,
) -> None:
    cluster = Cluster(1)
    t = cluster.t
    ranks = [structs.replace(each, start=t + BEGAN_S) for each in cluster.fleet.nodes["gpu-001"].processes]
    cluster.report("gpu-001", wire.Ranks(t=t, seq=2, processes=ranks))
    past = [PastStep(float(step), t + at) for step, at in enumerate(steps_s, 1)]
    reported = wire.Progress(
        t=t, seq=4, file="/logs/rank_3.log", rank=3, job="4711", offset=90, at=t + steps_s[1], dialect="x",
        backlog=True, timed=True, fields={"step": 2.0},
    )  # fmt: skip
    cluster.report("gpu-001", structs.replace(reported, fields={}, past=past), reported)
    cluster.find(
        "rank.exit_error",
        3,
        backlog=True,
        at=t + error_s,
        timed=not_before_s is None,
        count=1 if again_s is None else 2,
        last_at=None if again_s is None else t + again_s,
        not_before=None if not_before_s is None else t + not_before_s,
    )
    cluster.step(10)
    assert [incident.over for incident in cluster.book.incidents] == [over]


@pytest.mark.parametrize(
    ("runs_s", "closed"), [(SILENT_START_S - 60.0, False), (SILENT_START_S + 60.0, True)]
)
def test_a_restarted_job_without_steps_is_not_reported_as_stepping(runs_s: float, *, closed: bool) -> None:
    cluster = Cluster(1)
    t = cluster.t
    ranks = [structs.replace(each, start=t - runs_s) for each in cluster.fleet.nodes["gpu-001"].processes]
    cluster.report("gpu-001", wire.Ranks(t=t, seq=2, processes=ranks))
    cluster.find("rank.exit_error", 3, backlog=True, at=t - runs_s - 100.0, timed=True)
    cluster.step(10)
    (incident,) = cluster.book.incidents
    assert (incident.closed is not None) == closed
    assert STEPS_AGAIN not in (incident.closed or "")
    assert not {"making", "running"} & set(f"{STEPS_AGAIN} {incident.closed}".split())  # it may hang later


@pytest.mark.parametrize("apart_s", [-0.9, 0.0, 0.9])
@pytest.mark.parametrize(("last_offset", "over"), [(90, False), (300, True)])
def test_within_a_second_of_the_start_the_rank_itself_must_have_stepped_since(
    apart_s: float, last_offset: int, *, over: bool
) -> None:
    cluster = Cluster(1)
    t = cluster.t
    ranks = [structs.replace(each, start=t + BEGAN_S) for each in cluster.fleet.nodes["gpu-001"].processes]
    cluster.report("gpu-001", wire.Ranks(t=t, seq=2, processes=ranks))
    past = [PastStep(float(step), t + BEGAN_S + 0.8 + step) for step in (1, 2)]
    for rank, offset in ((0, 900), (3, last_offset)):
        reported = wire.Progress(
            t=t, seq=4, file=f"/logs/rank_{rank}.log", rank=rank, job="4711", offset=offset,
            at=t + BEGAN_S + 2.8, dialect="x", backlog=True, timed=True, fields={"step": 2.0},
        )  # fmt: skip
        cluster.report("gpu-001", structs.replace(reported, fields={}, past=past), reported)
    cluster.find("rank.exit_error", 3, backlog=True, at=t + BEGAN_S + apart_s, timed=True, offset=200)
    cluster.step(10)
    assert [incident.over for incident in cluster.book.incidents] == [over]


def test_a_report_that_is_due_takes_the_newest_steps_into_account() -> None:
    cluster = Cluster(1)
    t = cluster.t
    cluster.find("rank.exit_error", 3, backlog=True, at=t - 400.0, timed=True)
    cluster.step(1)
    ranks = [structs.replace(each, start=t + BEGAN_S) for each in cluster.fleet.nodes["gpu-001"].processes]
    reported = wire.Progress(
        t=t, seq=4, file="/logs/rank_3.log", rank=3, job="4711", offset=90, at=t - 200, dialect="x",
        backlog=True, timed=True, fields={"step": 2.0},
    )  # fmt: skip
    past = structs.replace(reported, fields={}, past=[PastStep(1.0, t - 250.0), PastStep(2.0, t - 200.0)])
    cluster.report("gpu-001", wire.Ranks(t=t, seq=2, processes=ranks), past, reported)
    cluster.book.judge_now()
    cluster.book.update(cluster.fleet, cluster.now, cluster.t)  # at the same moment as the look before
    assert [incident.over for incident in cluster.book.incidents] == [True]


def test_a_job_that_was_restarted_says_how_often_and_what_came_of_it() -> None:
    cluster = Cluster(1)
    cluster.find("rank.exit_error", 3)
    cluster.step(4)
    assert cluster.book.incidents[0].restarted == ""
    again = [
        structs.replace(
            each, pid=each.pid + 50, start=cluster.t, variables={"TORCHELASTIC_RESTART_COUNT": "2"}
        )
        for each in cluster.fleet.nodes["gpu-001"].processes
    ]
    cluster.report("gpu-001", wire.Ranks(t=cluster.t, seq=3, processes=again))
    cluster.step(4)
    cluster.book.judge_now()
    cluster.step(4)
    (incident,) = cluster.book.incidents
    assert "2 times" in incident.restarted
    assert "no step" in incident.restarted
    cluster.report("gpu-001", wire.Ranks(t=cluster.t, seq=4))
    cluster.step(4)
    cluster.book.judge_now()
    cluster.step(4)
    (incident,) = cluster.book.incidents
    assert "no rank" in incident.restarted


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
    assert bool(closings([incident], JobAttempts(), Places(), {}, T + 60)) == closed


@pytest.mark.parametrize(
    ("job", "node", "over"),
    [
        ("pretrain", "n7", True),
        ("pretrain@10.0.0.6:1", "n8", True),
        ("pretrain", "n9", False),
        ("a", "n7", False),
    ],
)
def test_the_next_attempt_of_a_job_that_shares_its_name_may_have_a_longer_one(
    job: str, node: str, *, over: bool
) -> None:
    """While both run, their rendezvous tells them apart; the first attempts ended before that was known."""
    running = {
        f"pretrain@10.0.0.{number}:29500": Attempt(T + 60, 9, True, T + 90, nodes=frozenset([f"n{number}"]))
        for number in (7, 8)
    }
    cause = structs.replace(alert(1, T), node=node, job=job)
    incident = Incident(
        f"{job}-1", 1, "", cause.code, "error", T, T, cause=cause, alerts=(cause,), job=job, node=node
    )
    assert bool(closings([incident], JobAttempts(running), Places(), {}, T + 100)) == over


@pytest.mark.parametrize(("step_s", "follows"), [(-10.0, False), (10.0, True)])
def test_a_step_of_before_the_file_was_cut_does_not_follow(step_s: float, *, follows: bool) -> None:
    """The file is cut to nothing; its offsets before are beyond the line that was written then."""
    step = LastStep("n1", "/logs/rank0.log", 0, 9000, T + step_s)
    assert step.follows(alert(0, T)) == follows
